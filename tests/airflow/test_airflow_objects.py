"""The objects that Airflow's code imports by name: helpers, errors, sessions, hooks without a provider package."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiosched import DAG, BaseOperator, EmptyOperator
from aiosched.airflow.objects import contexts, helpers, processes, sessions
from aiosched.airflow.objects.base_types import NOTSET, is_arg_set
from aiosched.airflow.objects.basic_hooks import SqliteHook
from aiosched.airflow.objects.models import TaskReschedule
from aiosched.airflow.objects.resumable import ResumableJobMixin
from aiosched.airflow.utils.scripts import write_python_script
from aiosched.errors import AioschedError, Refused
from aiosched.exceptions import AirflowException
from tests.authoring.authoring_builders import context_of


@pytest.mark.parametrize(
    ("key", "error"), [("a b", AirflowException), ("abcd", AirflowException), (5, TypeError), ("été", None)]
)
def test_a_key_is_checked_as_in_airflow(key: Any, error: type[Exception] | None) -> None:
    with nullcontext() if error is None else pytest.raises(error):
        helpers.validate_key(key, max_length=3)


@pytest.mark.parametrize(
    ("value", "mode", "pruned"),
    [
        ({"a": None, "b": 0, "c": {"d": None}}, "strict", {"b": 0, "c": {}}),
        ({"a": None, "b": 0, "c": {"d": None}}, "truthy", {}),
        ([1, None, {"a": None}], "strict", [1, {}]),
    ],
)
def test_none_is_pruned(value: Any, mode: str, pruned: Any) -> None:
    assert helpers.prune_dict(value, mode) == pruned


def test_dicts_are_merged_deeply() -> None:
    assert helpers.merge_dicts({"a": {"b": 1, "c": 2}, "d": 1}, {"a": {"b": 3}}) == {"a": {"b": 3, "c": 2}, "d": 1}


def test_lists_come_in_pieces() -> None:
    assert list(helpers.chunks([1, 2, 3], 2)) == [[1, 2], [3]]


def test_a_function_gets_the_names_that_it_has() -> None:
    def function(first: str, ds: str, other: int = 1) -> None: ...

    assert contexts.determine_kwargs(function, ["x"], {"ds": "d", "run_id": "r"}) == {"ds": "d"}
    assert contexts.determine_kwargs(lambda **kwargs: None, [], {"ds": "d"}) == {"ds": "d"}
    with pytest.raises(ValueError, match="'ds'"):
        contexts.determine_kwargs(lambda ds: None, ["x"], {"ds": "d"})


def test_the_variables_of_a_running_task() -> None:
    with DAG("d"):
        operator = EmptyOperator(task_id="t", owner="me")

    found = contexts.context_to_airflow_vars(context_of(operator), in_env_var_format=True)

    assert found["AIRFLOW_CTX_DAG_ID"] == "d"
    assert found["AIRFLOW_CTX_LOGICAL_DATE"] == "2026-01-02T03:04:05+00:00"
    assert found["AIRFLOW_CTX_DAG_OWNER"] == "me"


def test_the_environment_is_as_before_after_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEPT", "old")

    with processes.patch_environ({"KEPT": "new", "ADDED": "x"}):
        assert (os.environ["KEPT"], os.environ["ADDED"]) == ("new", "x")

    assert os.environ["KEPT"] == "old"
    assert "ADDED" not in os.environ


@pytest.mark.usefixtures("production")
def test_a_session_is_passed_on_and_refuses_queries() -> None:
    @sessions.provide_session
    def ask(what: str, session: Any = sessions.NEW_SESSION) -> Any:
        return session

    assert isinstance(ask("x"), sessions.NoSession)
    assert ask("x", session=3) == 3
    with pytest.raises(Refused, match=r"DagRun\.find"), ask("x") as session:
        session.query("anything")
    with pytest.raises(Refused, match=r"Variable\.get"):
        sessions.engine.raw_connection()


def test_what_is_not_set_differs_from_none() -> None:
    assert is_arg_set(None)
    assert not is_arg_set(NOTSET)


def test_sqlite_needs_no_provider_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = tmp_path / "base.db"
    monkeypatch.setenv("AIOSCHED_CONN_BASE", f'{{"conn_type": "sqlite", "host": "{base}"}}')
    hook = SqliteHook(sqlite_conn_id="base")

    hook.run(["CREATE TABLE t (id INTEGER, name TEXT)"])
    hook.insert_rows("t", [(1, "a"), (2, "b")], target_fields=["id", "name"])

    assert hook.get_records("SELECT * FROM t WHERE id > ?", parameters=(1,)) == [(2, "b")]
    assert hook.get_first("SELECT COUNT(*) FROM t") == (2,)
    assert hook.test_connection()[0]
    with pytest.raises(sqlite3.OperationalError):
        hook.run("SELECT * FROM missing")


def test_a_script_calls_a_function_elsewhere(tmp_path: Path) -> None:
    script, result = tmp_path / "script.py", tmp_path / "result"
    source = "def double(x):\n    return 2 * x"
    names = {"pickling_library": "pickle", "python_callable": "double", "python_callable_source": source}
    write_python_script(names, str(script))
    (tmp_path / "input").write_bytes(__import__("pickle").dumps({"args": [21], "kwargs": {}}))

    subprocess.run([sys.executable, str(script), str(tmp_path / "input"), str(result), "none"], check=True)

    assert __import__("pickle").loads(result.read_bytes()) == 42


def test_serializers_are_modules_by_name_that_are_imported_on_use() -> None:
    from airflow.providers.standard.operators.python import _SERIALIZERS as SERIALIZERS

    assert sorted(SERIALIZERS) == ["cloudpickle", "dill", "pickle"]
    assert SERIALIZERS["pickle"].__name__ == "pickle"
    assert "json" not in SERIALIZERS


class Job(ResumableJobMixin, BaseOperator):
    """Submits a job, and remembers what was called."""

    def __init__(self, *, status: str = "running", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.status = status
        self.called: list[str] = []

    def execute(self, context: Any) -> Any:
        self.execute_resumable(context)
        return self.called

    def submit_job(self, context: Any) -> str:
        self.called.append("submit")
        return "job-2"

    def get_job_status(self, external_id: str, context: Any) -> str:
        return self.status

    def is_job_active(self, status: str) -> bool:
        return status == "running"

    def is_job_succeeded(self, status: str) -> bool:
        return status == "done"

    def poll_until_complete(self, external_id: str, context: Any) -> None:
        self.called.append(f"poll {external_id}")

    def get_job_result(self, external_id: str, context: Any) -> str:
        self.called.append(f"result {external_id}")
        return external_id


@pytest.mark.parametrize(
    ("stored", "status", "called"),
    [
        ({}, "running", ["submit", "poll job-2", "result job-2"]),
        ({"remote_job_id": "job-1"}, "running", ["poll job-1", "result job-1"]),
        ({"remote_job_id": "job-1"}, "done", ["result job-1"]),
        ({"remote_job_id": "job-1"}, "failed", ["submit", "poll job-2", "result job-2"]),
    ],
)
def test_a_retry_waits_for_the_job_of_the_try_before(stored: dict[str, str], status: str, called: list[str]) -> None:
    class Store(dict[str, str]):
        def set(self, key: str, value: str) -> None:
            self[key] = value

    with DAG("d"):
        operator = Job(task_id="t", status=status)
    context = context_of(operator)
    context["task_state_store"] = store = Store(stored)

    assert operator.execute(context) == called
    assert store["remote_job_id"] in {"job-1", "job-2"}


async def test_a_job_without_a_store_is_submitted_each_time() -> None:
    with DAG("d"):
        operator = Job(task_id="t")
    context = context_of(operator)
    context["task_state_store"] = None

    assert operator.execute(context) == ["submit", "poll job-2", "result job-2"]


def test_a_rescheduled_try_knows_its_first_call() -> None:
    ti = context_of(EmptyOperator(task_id="t"))["ti"]
    ti.attempt = msgspec.structs.replace(ti.attempt, first_started=None)
    assert TaskReschedule.find_for_task_instance(ti) == []

    ti.attempt = msgspec.structs.replace(ti.attempt, first_started=ti.start_date - timedelta(hours=1))
    (first,) = TaskReschedule.find_for_task_instance(ti, try_number=ti.try_number)
    assert (first.task_id, first.start_date) == ("t", ti.start_date - timedelta(hours=1))
    with pytest.raises(Refused, match="only the running try"):
        TaskReschedule.find_for_task_instance(ti, try_number=7)


@pytest.fixture
def kinit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `kinit` that writes down its arguments, and fails for a keytab of the name `wrong`."""
    program, said = tmp_path / "kinit", tmp_path / "said"
    program.write_text(f'#!/bin/sh\necho "$@" > {said}\ncase "$*" in *wrong*) echo no key >&2; exit 1;; esac\n')
    program.chmod(0o755)
    monkeypatch.setenv("AIRFLOW__KERBEROS__KINIT_PATH", str(program))
    monkeypatch.setenv("AIRFLOW__KERBEROS__CCACHE", "/tmp/cache")
    return said


def test_a_kerberos_ticket_is_taken_with_the_settings_of_airflow(kinit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.security import kerberos

    monkeypatch.setenv("AIRFLOW__KERBEROS__REINIT_FREQUENCY", "60")

    assert kerberos.renew_from_kt("me@EXAMPLE", "my.keytab") == 0
    assert kinit.read_text() == "-f -a -r 1m -k -t my.keytab -c /tmp/cache me@EXAMPLE\n"


def test_the_principal_may_name_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.security.kerberos import get_kerberos_principal

    monkeypatch.setenv("AIRFLOW__KERBEROS__PRINCIPAL", "airflow/_HOST@EXAMPLE")

    assert get_kerberos_principal("me") == "me"
    assert get_kerberos_principal(None) == f"airflow/{socket.getfqdn()}@EXAMPLE"


@pytest.mark.usefixtures("kinit")
def test_a_kerberos_ticket_that_is_refused_ends_the_task_unless_told_otherwise() -> None:
    from airflow.security.kerberos import renew_from_kt

    assert renew_from_kt("me@EXAMPLE", "wrong", exit_on_fail=False) == 1
    with pytest.raises(AioschedError, match=r"no key.*AIRFLOW__KERBEROS__"):
        renew_from_kt("me@EXAMPLE", "wrong")


def test_the_failures_of_sensors_of_the_standard_provider_can_be_caught() -> None:
    from airflow.providers.standard.exceptions import DuplicateStateError, ExternalDagFailedError

    assert issubclass(DuplicateStateError, AioschedError)
    assert issubclass(ExternalDagFailedError, AioschedError)
