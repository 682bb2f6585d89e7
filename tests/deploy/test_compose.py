"""docker-compose.yml, as far as text can tell; test_compose_runs.py starts its services."""

from __future__ import annotations

import re
import shlex
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
import yaml

from aiosched.db.crypto.keyring import Keyring
from aiosched.db.server.dsn import address_of
from tests.deploy.compose import ROOT, MissingVariable, Service, interpolated, read_compose, read_dockerfile, seconds
from tests.deploy.known_names import check_command, known_variables, seconds_to_stop
from tests.deploy.scenario import VARIABLES

OURS = ("migrate", "aiosched", "web", "worker")


def test_the_default_profile_is_postgresql_18_a_scheduler_and_a_web_server() -> None:
    compose = read_compose(VARIABLES)

    assert [service.name for service in compose.of_profiles()] == ["postgres", "migrate", "aiosched", "web"]
    assert compose.services["postgres"].image == "postgres:18"
    assert compose.services["migrate"].depends_on == {"postgres": "service_healthy"}
    assert compose.services["migrate"].command == ("db", "migrate", "--roles")
    assert compose.services["aiosched"].depends_on == {"migrate": "service_completed_successfully"}
    assert compose.services["aiosched"].command == ("serve", "--no-web")


def test_without_passwords_it_says_what_to_run() -> None:
    for name in VARIABLES:
        with pytest.raises(MissingVariable, match=f"{name}: run deploy/compose/passwords (once|again)"):
            read_compose({**VARIABLES, name: ""})


def test_that_command_writes_them_once_readable_by_its_user_only(tmp_path: Path) -> None:
    folder = tmp_path / "deploy" / "compose"
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "deploy" / "compose" / "passwords", folder)

    def run() -> dict[str, str]:
        subprocess.run([folder / "passwords"], check=True, capture_output=True)
        return dict(line.split("=", 1) for line in (tmp_path / ".env").read_text("ascii").splitlines())

    written = run()

    assert set(written) == {*VARIABLES, "FERNET_KEYS"}
    assert len(set(written.values())) == len(written)
    assert all(re.fullmatch("[0-9a-f]{48}", written[name]) for name in VARIABLES)
    assert Keyring(written["FERNET_KEYS"]).encrypt("text")
    assert stat.S_IMODE((tmp_path / ".env").stat().st_mode) == 0o600
    assert run() == written


def test_each_service_has_a_role_of_its_own_and_none_is_a_superuser() -> None:
    services = read_compose(VARIABLES).services
    users = {name: address_of(one.environment["AIOSCHED_DSN"]).user for name, one in services.items() if is_ours(one)}

    assert users == {"migrate": "aiosched_owner", "aiosched": "aiosched_scheduler", "web": "aiosched_web"}


def is_ours(service: Service) -> bool:
    return "AIOSCHED_DSN" in service.environment


def test_another_profile_adds_prometheus_and_grafana() -> None:
    added = {service.name for service in read_compose(VARIABLES).of_profiles("observability")} - {"postgres", *OURS}

    assert added == {"prometheus", "grafana"}


def test_the_profile_celery_adds_redis_and_workers_that_know_no_database() -> None:
    compose = read_compose({**VARIABLES, "EXECUTOR": "celery"})
    worker, scheduler = compose.services["worker"], compose.services["aiosched"]

    assert {service.name for service in compose.of_profiles("celery")} == {"postgres", "redis", *OURS}
    assert scheduler.environment["AIOSCHED__EXECUTOR__KIND"] == "celery"
    assert read_compose(VARIABLES).services["aiosched"].environment["AIOSCHED__EXECUTOR__KIND"] == "local"
    assert worker.environment == {"AIOSCHED__CELERY__BROKER": scheduler.environment["AIOSCHED__CELERY__BROKER"]}
    assert worker.stop_grace >= seconds_to_stop()


def test_the_profile_dask_adds_a_scheduler_and_workers_that_know_no_database() -> None:
    compose = read_compose({**VARIABLES, "EXECUTOR": "dask"})
    scheduler, worker = compose.services["aiosched"], compose.services["dask-worker"]

    assert {service.name for service in compose.of_profiles("dask")} == {
        "postgres", "migrate", "aiosched", "web", "dask-scheduler", "dask-worker",
    }  # fmt: skip
    assert scheduler.environment["AIOSCHED__EXECUTOR__KIND"] == "dask"
    assert worker.environment == {"AIOSCHED__DASK__ADDRESS": scheduler.environment["AIOSCHED__DASK__ADDRESS"]}
    assert worker.stop_grace >= seconds_to_stop()


def test_settings_and_commands_of_our_services_exist() -> None:
    for name in OURS:
        service = read_compose(VARIABLES).services[name]
        assert service.command is not None
        check_command(service.command)
        assert set(service.environment) <= known_variables()


def test_our_services_have_no_rights_and_write_only_to_volumes_and_tmp() -> None:
    for name in (*OURS, "dask-scheduler", "dask-worker"):
        service = read_compose(VARIABLES).services[name]
        assert service.unprivileged, name
        assert service.read_only, name
        assert service.tmpfs == ("/tmp",), name


def test_a_scheduler_may_take_as_long_to_end_as_its_grace_allows() -> None:
    service = read_compose(VARIABLES).services["aiosched"]

    assert service.stop_grace >= seconds_to_stop()


def test_the_compose_file_publishes_a_web_server_with_a_login() -> None:
    web = read_compose({**VARIABLES, "ADMIN_PASSWORD": "secret"}).services["web"]

    assert web.ports == ("127.0.0.1:8484:8484",)
    assert web.health is not None
    assert "/readyz" in web.health.test[-1]
    assert web.environment["AIOSCHED__WEB__AUTH"] == "password"
    assert web.environment["AIOSCHED__WEB__ADMIN_PASSWORD"] == "secret"


def test_whatever_watches_the_fleet_is_reachable_from_this_machine_only() -> None:
    services = read_compose(VARIABLES).services

    assert all(port.startswith("127.0.0.1:") for name in ("prometheus", "grafana") for port in services[name].ports)


def test_the_web_server_has_no_dag_files() -> None:
    assert "/dags" not in {mount.target for mount in read_compose(VARIABLES).services["web"].mounts}


def test_the_scheduler_can_be_scaled() -> None:
    service = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]["aiosched"]

    assert {"container_name", "ports", "hostname"} & set(service) == set()


def test_what_a_service_mounts_is_there() -> None:
    compose = read_compose(VARIABLES)
    folders = [mount.source for one in compose.services.values() for mount in one.mounts if mount.source[0] == "/"]

    assert folders
    assert [path for path in folders if not (ROOT / path).exists()] == []
    assert set(read_dockerfile().volumes) >= {m.target for m in compose.services["aiosched"].mounts} - {"/dags"}


def test_the_commands_of_the_page_about_deployment_exist() -> None:
    page = (ROOT / "docs" / "deploy.md").read_text("utf-8")
    groups = r"(?:db|schedulers|doctor|serve|dags|tasks)\b"
    commands = re.findall(rf"\b(?:aiosched|migrate) (?:aiosched )?({groups}[^`\n\")]*)", page)

    assert len(commands) >= 8
    for command in commands:
        check_command(shlex.split(command))


def test_what_the_runner_cannot_do_is_an_error_and_not_left_out(tmp_path: Path) -> None:
    (tmp_path / "compose.yml").write_text(
        "name: other\nvolumes: {}\nservices:\n  one:\n    image: aiosched\n    network_mode: host\n"
    )

    with pytest.raises(AssertionError, match=r"one: the runner does not know .'network_mode'"):
        read_compose({}, tmp_path / "compose.yml")


def test_variables_and_durations_are_read_as_docker_reads_them() -> None:
    text = "a: ${SET:-x} ${EMPTY:-y} ${UNSET:-z}"

    assert interpolated("${UNSET:?run this}", {"UNSET": "2"}) == "2"
    assert interpolated(text, {"SET": "1", "EMPTY": ""}) == "a: 1 y z"
    assert [seconds(one) for one in ("1m30s", "500ms", "2h")] == [90.0, 0.5, 7200.0]
