"""The provider packages for SSH and SFTP against a real sshd, in the real service. For the night."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.providers.conftest import NIGHT, installed
from tests.providers.service import Service, check_states
from tests.providers.ssh_server import SSHD, WHY_NO_SSHD, SshServer, ssh_server

pytestmark = [*NIGHT, pytest.mark.skipif(SSHD is None, reason=WHY_NO_SSHD)]

SOURCE = """
from airflow import DAG
from airflow.providers.sftp.hooks.sftp import SFTPHook
from airflow.providers.sftp.operators.sftp import SFTPOperator
from airflow.providers.sftp.sensors.sftp import SFTPSensor
from airflow.providers.ssh.hooks.ssh import SSHHook
from airflow.providers.ssh.operators.ssh import SSHOperator
from airflow.providers.ssh.operators.ssh_remote_job import SSHRemoteJobOperator
from airflow.sdk import task

THERE = "{folder}/there"

with DAG("remote", schedule="@once", default_args={{"ssh_conn_id": "machine"}}):
    run = SSHOperator(
        task_id="run", command="echo $WORD of {{{{ dag.dag_id }}}}; pwd 1>&2", environment={{"WORD": "greetings"}},
        cmd_timeout=30,
    )

    @task
    def hook():
        with SSHHook("machine").get_conn() as client:
            _, output, _ = client.exec_command("echo from a hook")
            return output.read().decode().strip()

    put = SFTPOperator(
        task_id="put", local_filepath="{folder}/here.csv", remote_filepath=THERE + "/new/{{{{ dag.dag_id }}}}.csv",
        operation="put", create_intermediate_dirs=True,
    )
    seen = SFTPSensor(task_id="seen", sftp_conn_id="files", path=THERE + "/new/remote.csv", poke_interval=0.1)
    deferred = SFTPSensor(
        task_id="deferred", sftp_conn_id="files", path=THERE + "/new", file_pattern="*.csv", deferrable=True,
        poke_interval=1,
    )
    get = SFTPOperator(
        task_id="get", remote_filepath=THERE + "/new/remote.csv", local_filepath="{folder}/back.csv", operation="get",
    )

    @task
    def listed():
        return SFTPHook("files").list_directory(THERE + "/new")

    run >> put >> [seen, deferred] >> get >> listed()
    hook()

    job = SSHRemoteJobOperator(
        task_id="job", command="echo working; sleep 0.1; echo finished", poll_interval=1, cleanup="always",
        remote_base_dir="{folder}/jobs",
    )
    SSHOperator(task_id="wrong", command="echo not there 1>&2; exit 3")
    SSHOperator(task_id="unknown", ssh_conn_id="nowhere", command="true")
    SSHOperator(task_id="refused", ssh_conn_id="locked", command="true")
"""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = [f"apache-airflow-providers-{name}" for name in ("ssh", "sftp")]
    return installed(tmp_path_factory.mktemp("ssh") / "site", names)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[SshServer]:
    (tmp_path / "sshd").mkdir()
    with ssh_server(tmp_path / "sshd") as server:
        yield server


def test_commands_run_and_files_are_copied(site: Path, tmp_path: Path, dsn: str, machine: SshServer) -> None:
    (tmp_path / "here.csv").write_text("a,b\n1,2\n")
    service = Service(site, tmp_path, dsn)
    service.connect("machine", conn_type="ssh", **machine.fields)
    service.connect("files", conn_type="sftp", **machine.fields)
    service.connect("locked", conn_type="ssh", **{**machine.fields, "extra": {"no_host_key_check": True}})

    assert service.test_connection("machine").startswith("ok")
    ran = service.run(SOURCE.format(folder=tmp_path), dag_id="remote")

    failed = {"wrong", "unknown", "refused"}
    check_states(ran, {name: "failed" if name in failed else "success" for name in ran})
    assert len(ran) == 11
    assert base64.b64decode(ran["run"].result) == b"greetings of remote\n"
    assert ran["hook"].result == "from a hook"
    assert (tmp_path / "back.csv").read_text() == "a,b\n1,2\n"
    assert ran["listed"].result == ["remote.csv"]
    assert "[remote] finished" in ran["job"].log
    assert list((tmp_path / "jobs").iterdir()) == []
    assert "exit status = 3" in ran["wrong"].reason
    assert "not there" in ran["wrong"].log
    assert "nowhere" in ran["unknown"].reason
    assert "uthentication" in ran["refused"].reason
