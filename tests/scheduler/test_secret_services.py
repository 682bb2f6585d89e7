"""Variables and connections through the real service: from the database, by the scheduler, to tasks in workers."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from aiosched.core.values.connections import ConnectionValue
from aiosched.db.audit.secret_reads import Read, SecretReads
from aiosched.db.crypto.keyring import Keyring, new_key
from aiosched.db.people.secrets import SecretStore, VariableValue
from aiosched.db.server.engine import Database
from aiosched.errors import NotFound, Refused
from aiosched.scheduler.services.secret_services import secret_services
from aiosched.scheduler.services.task_services import DatabaseServices

SALES = ConnectionValue.from_uri("sales", "postgres://user:hunter2@db/x")


async def ask(db: Database, keyring: Keyring, name: str, **args: Any) -> Any:
    return json.loads(await DatabaseServices(db, secret_services(keyring)).call(1, name, json.dumps(args)))


async def test_tasks_read_set_and_delete_variables_and_read_connections(db: Database) -> None:
    keyring = Keyring(new_key())
    await SecretStore(db, keyring).set_connections([SALES])

    await ask(db, keyring, "variable", set="cursor", value="7", description=None)

    assert await ask(db, keyring, "variable", get="cursor") == {"value": "7"}
    await ask(db, keyring, "variable", delete="cursor")
    assert await ask(db, keyring, "variable", get="cursor") == {"value": None}
    assert (await ask(db, keyring, "connection", get="sales"))["value"]["password"] == "hunter2"
    assert await ask(db, keyring, "connection", get="other") == {"value": None}
    with pytest.raises(NotFound):
        await ask(db, keyring, "variable", delete="cursor")


async def test_what_tasks_change_leaves_a_line_in_the_audit_log_without_the_value(db: Database) -> None:
    keyring = Keyring(new_key())
    for _ in range(2):  # the second time changes nothing
        await ask(db, keyring, "variable", set="cursor", value="a value")
    await ask(db, keyring, "variable", delete="cursor")

    lines = [dict(row) for row in await db.fetch("SELECT * FROM request ORDER BY id")]
    assert [line["verb"] for line in lines] == ["set_variable", "delete_variable"]
    assert {(line["requested_by"], line["state"]) for line in lines} == {("a task", "applied")}
    assert "a value" not in str(lines)


async def test_a_read_has_one_entry_for_each_try_and_name(db: Database, dsn: str) -> None:
    keyring, own = Keyring(new_key()), await Database.open(dsn)
    reads = SecretReads(own)
    store = SecretStore(db, keyring)
    await store.set_connections([SALES])
    await store.set_variables({"region": VariableValue("a value")})
    services = DatabaseServices(own, secret_services(keyring, reads=reads))
    async with db.acquire() as conn:
        statement = """
            WITH version AS (
                INSERT INTO dag_version (dag_id, number, spec, content_hash) VALUES ('etl', 1, '{}', 'x') RETURNING id
            )
            INSERT INTO dag_run (partition, dag_id, run_id, run_type, run_after, state, triggered_by, version_id)
            SELECT 1, 'etl', 'r1', 'manual', now(), 'running', 'x', id FROM version RETURNING id
        """
        run = await conn.fetchval(statement)

    for number in (1, 1, 2):
        await services.call(run, "connection", json.dumps({"get": "sales", "by": ["load", -1, number]}))
    for name in ("region", "missing"):
        await services.call(run, "variable", json.dumps({"get": name}))
    await own.close()

    lines = await db.fetch("SELECT who, object, dag_id, detail FROM audit_log WHERE kind = 'secret.read' ORDER BY id")
    assert [(*row[:3], json.loads(row[3])) for row in lines] == [
        ("etl r1", "connection sales", "etl", {"task": "load", "try": 1}),
        ("etl r1", "connection sales", "etl", {"task": "load", "try": 2}),
        ("etl r1", "variable region", "etl", {}),
    ]


async def test_reads_that_cannot_be_written_end_with_their_database(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    db = await Database.open(dsn)
    reads = SecretReads(db)
    await db.close()
    await db.close()
    reads.note(Read(1, None, "variable late"))
    other = await Database.open(dsn)
    refused = SecretReads(other)
    refused.note(Read(1, None, "variable odd\0"))  # no text for PostgreSQL
    before = asyncio.all_tasks()

    await other.close()

    third = await Database.open(dsn)
    cut_off = SecretReads(third)
    cut_off._begin()
    assert cut_off._writing is not None
    cut_off._writing.cancel()  # as at the end of a program
    await third.close()
    with pytest.raises(asyncpg.InterfaceError, match="clos"):
        async with third.acquire():
            raise AssertionError("its connections are closed")

    assert "no entries yet" in caplog.text
    for each in (reads, refused):
        assert each._timer is None or each._timer.cancelled()
    assert asyncio.all_tasks() <= before


@pytest.mark.parametrize(("keys", "complaint"), [(None, "make-key"), ("nonsense", "not a Fernet key")])
async def test_a_task_is_told_why_there_is_no_key(db: Database, keys: str | None, complaint: str) -> None:
    with pytest.raises(Refused, match=complaint):
        await ask(db, Keyring(keys), "variable", set="cursor", value="7")


async def test_a_task_is_told_why_it_cannot_set_a_variable(db: Database) -> None:
    with pytest.raises(Refused, match=r"The variable '\.\.' is a step in a path"):
        await ask(db, Keyring(new_key()), "variable", set="..", value="7")


DAG = """
from datetime import datetime
from aiosched import BashOperator, Connection, DAG, Variable, task

print("at the top", Variable.get("marked"))

with DAG("reads", schedule="@once", start_date=datetime(2026, 1, 1), catchup=True):

    @task
    def login():
        password = Connection.get("sales").password
        Variable.set("seen", "yes")
        print("logging in with", password)
        raise ValueError(f"{password} was refused")

    @task
    async def later():
        print("the key is", await Variable.aget("api_key"), await Variable.aget("marked"))

    login() >> BashOperator(task_id="never", bash_command="true")
    call = "echo {{ var.value.api_key }} {{ var.value.region }}"
    later() >> BashOperator(task_id="call", bash_command=call, do_xcom_push=False)
"""


async def serve(folder: Path, dsn: str, key: str) -> str:
    """Run the whole service until nothing is left to do; what it printed."""
    service = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "aiosched", "serve", "--no-web", "--until-idle"),
        *("--dags", str(folder / "dags"), "--dsn", dsn),
        cwd=folder,
        env={**os.environ, "AIOSCHED__SECRETS__FERNET_KEYS": key, "AIOSCHED_HOME": str(folder / "home")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    said, _ = await service.communicate()
    assert service.returncode == 0, said.decode()
    return said.decode()


async def test_secrets_reach_tasks_in_workers_but_no_log_and_no_table(db: Database, dsn: str, tmp_path: Path) -> None:
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "reads.py").write_text(DAG)
    key = new_key()
    store = SecretStore(db, Keyring(key))
    await store.set_connections([SALES])
    await store.set_variables({"api_key": VariableValue("sk-live-1"), "region": VariableValue("eu-west-1")})
    await store.set_variables({"marked": VariableValue("crm-8-x", is_secret=True)})

    said = await serve(tmp_path, dsn, key)

    assert (await store.get_variable("seen")).value == "yes"
    logs = {path.parent.name: path.read_text() for path in (tmp_path / "home").rglob("*.log")}
    assert "logging in with ***" in logs["task_id=login"]
    assert "the key is *** ***" in logs["task_id=later"]
    assert "*** eu-west-1" in logs["task_id=call"]
    async with db.acquire() as conn:
        names = [row[0] for row in await conn.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
        rows = [row[0] for name in names for row in await conn.fetch(f"SELECT t::text FROM {name} AS t")]
        reason = await conn.fetchval("SELECT reason FROM task_instance WHERE state = 'failed'")
    assert reason == "ValueError: *** was refused"
    everything = "\n".join([said, *logs.values(), *rows])
    assert [secret for secret in ("hunter2", "sk-live-1", "crm-8-x", key) if secret in everything] == []
