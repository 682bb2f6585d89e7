"""docker-compose.yml, as far as text can tell; test_containers.py starts its services."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from kombu import Connection
from redis.exceptions import ResponseError

from aiosched.config import Settings
from aiosched.config.secret_environment import secret_variables
from aiosched.core.values.worker_messages import Job
from aiosched.db.crypto.keyring import Keyring
from aiosched.db.server.dsn import address_of
from aiosched.executors.celery.celery_engine import CeleryEngine
from tests.deploy.compose import (
    ROOT,
    SECRETS,
    VARIABLES,
    MissingVariable,
    interpolated,
    read_compose,
    read_dockerfile,
    seconds,
)
from tests.deploy.daemon import BASE
from tests.deploy.known_names import check_command, known_variables, seconds_to_stop
from tests.engines.brokers import REDIS, WHY_NO_REDIS, Redis
from tests.patience import PATIENCE

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
    with pytest.raises(MissingVariable, match="SECRETS: run deploy/compose/passwords, which adds it"):
        read_compose({})


def test_whichever_password_compose_misses_first_it_says_what_to_run() -> None:
    """It looks at the places of a variable in no order."""
    hints = re.findall(r"\$\{\w+:\?([^}]*)\}", (ROOT / "docker-compose.yml").read_text("utf-8"))

    assert set(hints) == {"run deploy/compose/passwords, which adds it to .env"}


class Secrets:
    """The command in a folder of its own, and what it has written."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.env, self.files = folder, folder / ".env", folder / SECRETS
        self.command = folder / "deploy" / "compose" / "passwords"
        self.command.parent.mkdir(parents=True)
        shutil.copy(ROOT / "deploy" / "compose" / "passwords", self.command)

    def write(self) -> str:
        return subprocess.run([self.command], check=True, capture_output=True, text=True).stdout

    def all(self) -> dict[str, str]:
        return {path.name: path.read_text("ascii").removesuffix("\n") for path in self.files.iterdir()}


@pytest.fixture
def written(tmp_path: Path) -> Secrets:
    found = Secrets(tmp_path)
    found.write()
    return found


def test_that_command_writes_them_once_readable_by_its_user_only(written: Secrets) -> None:
    found = written.all()
    random = {name: text for name, text in found.items() if name.endswith(("_password", "_token"))}

    assert set(found) == set(read_compose(VARIABLES).secrets) | {"broker_password"}
    assert len(set(found.values())) == len(found)
    assert len(random) == 7
    assert all(re.fullmatch("[0-9a-f]{48}", text) for text in random.values())
    assert all(Keyring(found[name]).encrypt("text") for name in ("fernet_keys", "celery_keys"))
    assert written.env.read_text("ascii") == f"SECRETS=./{SECRETS}\n"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (written.env, written.files)] == [0o600, 0o700]
    assert all(path.stat().st_mode & 0o004 for path in written.files.iterdir())  # for the users of containers
    written.write()
    assert written.all() == found


def test_a_new_password_comes_into_its_address_and_into_the_file_that_is_mounted(written: Secrets) -> None:
    before, inodes = written.all(), {path.name: path.stat().st_ino for path in written.files.iterdir()}
    for name in ("web_password", "broker_password"):
        (written.files / name).write_text("")

    written.write()

    after = written.all()
    assert {name for name in after if after[name] != before[name]} == {
        *("web_password", "dsn_web"), *("broker_password", "broker", "broker_users")
    }  # fmt: skip
    assert f":{after['web_password']}@" in after["dsn_web"]
    assert {path.name: path.stat().st_ino for path in written.files.iterdir()} == inodes


def test_the_secrets_of_an_env_file_of_before_stay_and_their_lines_are_named(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("DAGS=/srv/dags\nOWNER_PASSWORD=of before\nFERNET_KEYS=a=,b=\n")
    secrets = Secrets(tmp_path)

    said = secrets.write()

    assert secrets.all()["owner_password"] == "of before"
    assert secrets.all()["fernet_keys"] == "a=,b="
    assert "not used any more, remove them: OWNER_PASSWORD FERNET_KEYS" in said
    assert secrets.env.read_text("ascii").splitlines()[0] == "DAGS=/srv/dags"


DOCKER = """#!/bin/sh
# Stands for Docker and a registry: the digest of an image is that of its name.
case "$1" in
  pull) echo "$3" >> pulled; [ "$3" != "$REFUSED" ] ;;
  image)
    [ "$5" != "$BUILT_HERE" ] || exit 0
    sum=$(printf %s "$5$TODAY" | sha256sum | cut -c1-64)
    printf 'docker.io/other/name@sha256:%064d\\n' 0
    printf '%s@sha256:%s\\n' "$PREFIX${5%:*}" "$sum" ;;
esac
"""


class Images:
    """The command that pins images, in a folder of its own, with a Docker that answers without a registry."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.env = folder, folder / ".env"
        for name in ("docker-compose.yml", "deploy/compose/digests"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
        (folder / "bin").mkdir()
        (folder / "bin" / "docker").write_text(DOCKER)
        (folder / "bin" / "docker").chmod(0o755)

    def pin(self, **environment: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}", **environment}
        command = [self.folder / "deploy" / "compose" / "digests"]
        return subprocess.run(command, capture_output=True, text=True, env=env)

    @property
    def pinned(self) -> dict[str, str]:
        lines = (line.partition("=") for line in self.env.read_text("ascii").splitlines())
        return {name: value for name, _, value in lines if name.endswith("_IMAGE")}


@pytest.fixture
def images(tmp_path: Path) -> Images:
    return Images(tmp_path)


@pytest.mark.parametrize("prefix", ["", "docker.io/library/"])
def test_images_are_pinned_to_what_their_tags_mean(images: Images, prefix: str) -> None:
    images.env.write_text("SECRETS=/etc/aiosched\nREDIS_IMAGE=redis:7@sha256:old\nDAGS=/srv/dags\n")

    done = images.pin(PREFIX=prefix)

    assert done.returncode == 0, done.stderr
    plain, found = read_compose(VARIABLES), read_compose({**VARIABLES, **images.pinned})
    for name, service in plain.services.items():
        if service.image == "aiosched":
            assert found.services[name].image == "aiosched"
        else:
            assert re.fullmatch(re.escape(service.image) + "@sha256:[0-9a-f]{64}", found.services[name].image)
    assert f"\nARG BASE={BASE}\n" in (ROOT / "Dockerfile").read_text("utf-8")
    assert re.fullmatch(re.escape(BASE) + "@sha256:[0-9a-f]{64}", found.services["migrate"].build_args["BASE"])
    assert plain.services["migrate"].build_args["BASE"] == BASE
    assert "sha256:" + 64 * "0" not in images.env.read_text()
    assert images.env.read_text().splitlines()[:2] == ["SECRETS=/etc/aiosched", "DAGS=/srv/dags"]
    assert stat.S_IMODE(images.env.stat().st_mode) == 0o600
    assert images.pinned == dict(line.split("=", 1) for line in done.stdout.splitlines())


def test_pinned_again_they_are_what_the_tags_mean_then(images: Images) -> None:
    images.pin()
    before = images.pinned
    images.pin()
    assert images.pinned == before
    images.pin(TODAY="later")
    assert images.pinned.keys() == before.keys()
    assert all(images.pinned[name] != before[name] for name in before)


@pytest.mark.parametrize("wrong", ["REFUSED", "BUILT_HERE"])
def test_an_image_without_a_digest_changes_nothing(images: Images, wrong: str) -> None:
    images.env.write_text("SECRETS=x\nREDIS_IMAGE=redis:7@sha256:old\n")

    done = images.pin(**{wrong: "redis:8"})

    assert done.returncode == 1
    assert images.env.read_text() == "SECRETS=x\nREDIS_IMAGE=redis:7@sha256:old\n"
    assert [path.name for path in images.folder.glob(".env*")] == [".env"]
    if wrong == "BUILT_HERE":
        assert "redis:8 has no digest here" in done.stderr


def test_no_secret_is_in_an_environment_and_each_is_mounted_only_where_it_is_read() -> None:
    secret = re.compile(r"PASSWORD|TOKEN|KEY|SECRET|DSN|BROKER")
    for service in read_compose(VARIABLES).services.values():
        named = {name: value for name, value in service.environment.items() if secret.search(name)}
        assert all(name.endswith("_FILE") for name in named), service.name
        files = {value.removeprefix("/run/secrets/") for value in named.values()}
        by_others = {
            "postgres": {f"{role}_password" for role in ("owner", "scheduler", "web")},  # roles.sh
            "prometheus": {"metrics_token"},
            "redis": {"broker_users"},
        }
        assert service.secrets == files | by_others.get(service.name, set()), service.name


def test_no_setting_that_is_secret_has_its_value_in_the_compose_file() -> None:
    for service in read_compose(VARIABLES).services.values():
        values = {name for name in service.environment if not name.endswith("__FILE")}
        assert not values & secret_variables(), service.name


def test_who_needs_each_other_shares_a_network_and_nobody_else() -> None:
    compose = read_compose(VARIABLES)

    def near(name: str) -> set[str]:
        mine = compose.services[name].networks
        return {other.name for other in compose.services.values() if other.networks & mine} - {name}

    assert near("postgres") == {"migrate", "aiosched", "web"}
    assert near("redis") == {"aiosched", "worker"}
    assert near("dask-scheduler") == {"aiosched", "dask-worker"}
    assert near("prometheus") == {"web", "grafana"}
    assert near("worker") == {"redis", "aiosched", "web", "dask-worker"}
    assert compose.closed == {"database", "broker"}
    for service in compose.services.values():
        assert set(service.depends_on) <= near(service.name), service.name
        assert not service.ports or service.networks - compose.closed, service.name


def test_each_service_has_a_role_of_its_own_and_none_is_a_superuser(written: Secrets) -> None:
    services = read_compose(VARIABLES).services
    files = {name: one.environment.get("AIOSCHED_DSN__FILE") for name, one in services.items()}
    users = {name: address_of(written.all()[Path(file).name]).user for name, file in files.items() if file}

    assert users == {"migrate": "aiosched_owner", "aiosched": "aiosched_scheduler", "web": "aiosched_web"}


@pytest.mark.skipif(REDIS is None, reason=WHY_NO_REDIS)
def test_redis_lets_celery_work_and_others_only_ask_whether_it_is_alive(written: Secrets, tmp_path: Path) -> None:
    class WithUsers(Redis):
        def command(self) -> list[str]:
            return [*super().command(), "--aclfile", str(written.files / "broker_users")]

    broker = WithUsers()
    stranger, broker.url = broker.url, written.all()["broker"].replace("redis:6379", f"127.0.0.1:{broker.port}")
    settings = Settings()
    settings.celery.broker, settings.celery.keys = broker.url, written.all()["celery_keys"]

    def asked(address: str, *words: str) -> str:
        with Connection(address) as connection:
            try:
                return str(connection.default_channel.client.execute_command(*words))
            except ResponseError as error:
                return type(error).__name__

    async def send_and_look() -> list[str]:
        engine = CeleryEngine(settings)
        job = Job(id=1, token="t", urls=("http://127.0.0.1:1",))
        await engine.send([job], quick=False)
        held = await engine.holds([1])
        worker = await asyncio.to_thread(subprocess.Popen, [sys.executable, "-P", "-m", "aiosched", "celery", "worker",
                                         "--slots", "1"], env=environment, cwd=tmp_path)  # fmt: skip
        try:
            async with asyncio.timeout(PATIENCE):
                while not engine.status().workers or engine.status().queues["default"]:
                    await engine.holds([1])
            await engine.cancel([1], grace=1)
        finally:
            worker.terminate()
            await asyncio.to_thread(worker.wait)
            await engine.stop()
        return [*map(str, held), *(worker.name for worker in engine.status().workers)]

    environment = {**os.environ, "AIOSCHED__CELERY__BROKER": broker.url, "AIOSCHED_HOME": str(tmp_path / "home"),
                   "AIOSCHED_DAGS": str(tmp_path), "AIOSCHED__SCHEDULER__GRACE": "1",
                   "AIOSCHED__CELERY__KEYS__FILE": str(written.files / "celery_keys")}  # fmt: skip
    broker.start()
    try:
        assert [asked(stranger, "PING")] == ["True"]
        for words in (("LRANGE", "default", "0", "-1"), ("INFO",), ("LPUSH", "default", "x"), ("SUBSCRIBE", "x")):
            assert asked(stranger, *words) == "NoPermissionError", words
        for words in (
            ("FLUSHALL",),
            ("CONFIG", "GET", "*"),
            ("ACL", "LIST"),
            ("KEYS", "*"),
            ("MONITOR",),
            ("SHUTDOWN",),
        ):
            assert asked(broker.url, *words) == "NoPermissionError", words
        assert len(asyncio.run(send_and_look())) == 2
    finally:
        broker.close()


def test_another_profile_adds_prometheus_and_grafana() -> None:
    added = {service.name for service in read_compose(VARIABLES).of_profiles("observability")} - {"postgres", *OURS}

    assert added == {"prometheus", "grafana"}


def test_the_profile_celery_adds_redis_and_workers_that_know_no_database() -> None:
    compose = read_compose({**VARIABLES, "EXECUTOR": "celery"})
    worker, scheduler = compose.services["worker"], compose.services["aiosched"]

    assert {service.name for service in compose.of_profiles("celery")} == {"postgres", "redis", *OURS}
    assert scheduler.environment["AIOSCHED__EXECUTOR__KIND"] == "celery"
    assert read_compose(VARIABLES).services["aiosched"].environment["AIOSCHED__EXECUTOR__KIND"] == "local"
    assert worker.environment.items() <= scheduler.environment.items()
    assert not [name for name in worker.environment if "CELERY" not in name]
    assert worker.secrets == {"broker", "celery_keys"}
    assert worker.networks.isdisjoint(compose.services["postgres"].networks)
    assert worker.stop_grace >= seconds_to_stop()


def test_the_profile_dask_adds_a_scheduler_and_workers_that_know_no_database() -> None:
    compose = read_compose({**VARIABLES, "EXECUTOR": "dask"})
    scheduler, worker = compose.services["aiosched"], compose.services["dask-worker"]

    assert {service.name for service in compose.of_profiles("dask")} == {
        "postgres", "migrate", "aiosched", "web", "dask-scheduler", "dask-worker",
    }  # fmt: skip
    assert scheduler.environment["AIOSCHED__EXECUTOR__KIND"] == "dask"
    assert worker.environment == {"AIOSCHED__DASK__ADDRESS": scheduler.environment["AIOSCHED__DASK__ADDRESS"]}
    assert not worker.secrets
    assert worker.networks.isdisjoint(compose.services["postgres"].networks)
    assert worker.stop_grace >= seconds_to_stop()


def test_settings_and_commands_of_our_services_exist() -> None:
    for name in OURS:
        service = read_compose(VARIABLES).services[name]
        assert service.command is not None
        check_command(service.command)
        assert set(service.environment) <= known_variables()


def test_our_services_have_no_rights_and_write_only_to_volumes_and_tmp() -> None:
    for name in (*OURS, "dask-scheduler", "dask-worker", "redis"):
        service = read_compose(VARIABLES).services[name]
        assert service.unprivileged, name
        assert service.read_only, name
        assert service.tmpfs == (("/tmp",) if name != "redis" else ()), name


def test_a_scheduler_may_take_as_long_to_end_as_its_grace_allows() -> None:
    service = read_compose(VARIABLES).services["aiosched"]

    assert service.stop_grace >= seconds_to_stop()


def test_the_compose_file_publishes_a_web_server_with_a_login() -> None:
    web = read_compose(VARIABLES).services["web"]

    assert web.ports == ("127.0.0.1:8484:8484",)
    assert web.health is not None
    assert "/readyz" in web.health.test[-1]
    assert web.environment["AIOSCHED__WEB__AUTH"] == "password"
    assert "AIOSCHED__WEB__ADMIN_PASSWORD__FILE" in web.environment


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


def test_what_the_reader_does_not_know_is_an_error_and_not_left_out(tmp_path: Path) -> None:
    (tmp_path / "compose.yml").write_text(
        "name: other\nvolumes: {}\nservices:\n  one:\n    image: aiosched\n    network_mode: host\n"
    )

    with pytest.raises(AssertionError, match=r"one: this reader does not know .'network_mode'"):
        read_compose({}, tmp_path / "compose.yml")


def test_variables_and_durations_are_read_as_docker_reads_them() -> None:
    text = "a: ${SET:-x} ${EMPTY:-y} ${UNSET:-z}"

    assert interpolated("${UNSET:?run this}", {"UNSET": "2"}) == "2"
    assert interpolated(text, {"SET": "1", "EMPTY": ""}) == "a: 1 y z"
    assert [seconds(one) for one in ("1m30s", "500ms", "2h")] == [90.0, 0.5, 7200.0]
