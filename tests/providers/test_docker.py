"""The provider package for Docker against a daemon that runs processes, in the real service. For the night."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.providers.conftest import NIGHT, installed
from tests.providers.docker_daemon import DockerDaemon
from tests.providers.service import Service, check_states

pytestmark = NIGHT

SOURCE = """
from datetime import timedelta

from airflow import DAG
from airflow.providers.docker.hooks.docker import DockerHook
from airflow.providers.docker.operators.docker import DockerOperator
from airflow.sdk import task

URL = "{url}"

with DAG("containers", schedule="@once", default_args={{"docker_url": URL, "auto_remove": "force"}}):
    plain = DockerOperator(
        task_id="plain", image="tools:1", command=["sh", "-c", "echo first; echo $WORD of {{{{ dag.dag_id }}}}"],
        environment={{"WORD": "greetings"}},
    )
    private = DockerOperator(task_id="private", image="tools:1", command="echo hello", docker_conn_id="registry")

    @task.docker(image="python:3.11", expect_airflow=False)
    def add(a, b):
        print("adding")
        return {{"sum": a + b}}

    plain >> private >> add(1, 2)

    @task
    def hook():
        return DockerHook(None, base_url=URL).get_conn().version()["Version"]

    hook()
    DockerOperator(task_id="wrong", image="tools:1", command=["sh", "-c", "echo broken; exit 3"], force_pull=True)
    DockerOperator(task_id="left_out", image="tools:1", command=["sh", "-c", "exit 99"], skip_on_exit_code=99,
                   force_pull=True)
    DockerOperator(task_id="no_image", image="nothing:1", command="true")
    DockerOperator(task_id="no_daemon", image="tools:1", command="true", docker_url="unix:///nowhere.sock")
    DockerOperator(task_id="long", image="tools:1", command="sleep 1000", auto_remove="never",
                   execution_timeout=timedelta(seconds=2))
"""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("docker") / "site", ["apache-airflow-providers-docker"])


@pytest.fixture
def daemon(short_path: Path) -> Iterator[DockerDaemon]:
    with DockerDaemon(short_path, frozenset({"tools:1", "python:3.11"})).open() as daemon:
        yield daemon


def test_containers_run_fail_and_are_stopped(site: Path, tmp_path: Path, dsn: str, daemon: DockerDaemon) -> None:
    service = Service(site, tmp_path, dsn)
    service.connect("registry", conn_type="docker", host="registry.example", login="me", password="open")

    ran = service.run(SOURCE.format(url=daemon.url), dag_id="containers")

    failed = {"wrong", "no_image", "no_daemon", "long"}
    expected = {name: "failed" if name in failed else "success" for name in ran} | {"left_out": "skipped"}
    check_states(ran, expected)
    assert len(ran) == 9
    assert ran["plain"].result == "greetings of containers"
    assert ran["add"].result == {"sum": 3}
    assert "adding" in ran["add"].log
    assert ran["hook"].result == "28.0"
    [login] = daemon.logins
    assert (login["username"], login["serveraddress"]) == ("me", "registry.example")
    assert "open" not in ran["private"].log
    assert "'StatusCode': 3" in ran["wrong"].reason
    assert "broken" in ran["wrong"].log
    assert "nothing:1 not found" in ran["no_image"].reason
    assert "/nowhere.sock" in ran["no_daemon"].log
    assert daemon.done.count("stop") == 1
    [left] = daemon.containers.values()  # its auto_remove is never
    assert left.config["Cmd"] == ["sleep", "1000"]
