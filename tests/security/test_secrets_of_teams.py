"""Tasks and DAG files of one team find no variable or connection of another, in whatever executor they run."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from aiosched.backends.kinds import backends_of
from aiosched.config import SecretsSettings, Settings
from aiosched.core.creation.upcoming import NO_RUN
from aiosched.core.values.connections import ConnectionValue
from aiosched.core.values.ids import partition_of
from aiosched.core.values.secret_names import Reader
from aiosched.db.crypto.keyring import Keyring, new_key
from aiosched.db.people.pools import set_pool
from aiosched.db.people.secrets import SecretStore, VariableValue
from aiosched.db.server.engine import Database
from aiosched.db.statements.inbox import notify
from aiosched.errors import NotFound, Refused
from aiosched.scheduler import Scheduler
from aiosched.scheduler.services.secret_services import secret_services
from aiosched.scheduler.services.task_services import DatabaseServices
from aiosched.web.worker_api.endpoints import make_worker_api
from tests.engines.agents import AgentEngine
from tests.patience import PATIENCE

pytestmark = pytest.mark.usefixtures("kept_supervisors")

TEAM_DAG = """
from aiosched import DAG, Connection, Variable, task

AT_THE_TOP = Variable.get("of_alpha", "nothing")

with DAG(DAG_ID, schedule=None, description=f"at the top: {AT_THE_TOP}"):

    def attempt(call):
        try:
            return str(call())
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    @task
    def plain(text):
        return {
            "top": AT_THE_TOP,
            "template": text,
            "variable": attempt(lambda: Variable.get("of_alpha")),
            "missing": attempt(lambda: Variable.get("of_gamma")).replace("gamma", "alpha").replace("GAMMA", "ALPHA"),
            "default": attempt(lambda: Variable.get("of_alpha", "nothing")),
            "connection": attempt(lambda: Connection.get("db_of_alpha").password),
            "shared": attempt(lambda: Variable.get("shared")),
            "delete": attempt(lambda: Variable.delete("of_alpha")) if DAG_ID != "alpha" else "",
            "set": attempt(lambda: Variable.set("of_alpha", "stolen")) if DAG_ID != "alpha" else "",
            "own": attempt(lambda: Variable.set(f"made_by_{DAG_ID}", "x")),
            "change_shared": attempt(lambda: Variable.set("shared", "poisoned")) if DAG_ID != "nobody" else "",
            "delete_shared": attempt(lambda: Variable.delete("shared")) if DAG_ID != "nobody" else "",
        }

    @task
    async def later():
        try:
            return await Variable.aget("of_alpha")
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    plain("{{ var.value.get('of_alpha', 'nothing') }}") >> later()
"""

ENGINE = pytest.param("engine", marks=pytest.mark.slow)
FOLDERS = {"alpha": "alpha", "beta": "beta", "nobody": None}


@pytest.fixture
async def settings(tmp_path: Path, dsn: str, db: Database) -> Settings:
    """Two teams with a folder each, and a DAG of nobody; some secrets of the team alpha."""
    found = Settings()
    found.core.home, found.core.dags_folder, found.database.dsn = tmp_path / "home", tmp_path / "dags", dsn
    found.secrets.fernet_keys = new_key()
    async with db.acquire() as conn:
        for name, team in FOLDERS.items():
            folder = tmp_path / "dags" / name
            folder.mkdir(parents=True)
            (folder / "d.py").write_text(TEAM_DAG.replace("DAG_ID", repr(name)))
            if team is not None:
                await conn.execute("INSERT INTO team (name) VALUES ($1)", team)
                await conn.execute("INSERT INTO team_folder (folder, team) VALUES ($1, $2)", name, team)
    store = SecretStore(db, Keyring(found.secrets.fernet_keys))
    await store.set_variables({"of_alpha": VariableValue("sesame")}, team="alpha")
    await store.set_variables({"shared": VariableValue("for all")})
    connection = ConnectionValue(conn_id="db_of_alpha", conn_type="http", password="hunter2")
    await store.set_connections([connection], team="alpha")
    return found


@contextlib.asynccontextmanager
async def serving(settings: Settings, kind: str) -> AsyncIterator[Scheduler]:
    folder = settings.core.dags_folder
    async with contextlib.AsyncExitStack() as stack:
        executor: Any = kind
        if kind == "engine":
            db = await stack.enter_async_context(await Database.open(settings.database.dsn or ""))
            executor = AgentEngine(folder, httpx2.ASGITransport(app=make_worker_api(db, settings)))
            stack.push_async_callback(executor.close)
        scheduler = await stack.enter_async_context(Scheduler(dags_folder=folder, executor=executor, settings=settings))
        await scheduler.read_folder()
        async with scheduler.db.acquire() as conn:
            for dag_id, team in FOLDERS.items():
                await conn.execute("UPDATE dag SET team = $2 WHERE dag_id = $1", dag_id, team)
        yield scheduler


async def found_by(scheduler: Scheduler, dag_id: str) -> tuple[dict[str, str], str]:
    """What the tasks of a DAG have found."""
    run = await scheduler.trigger(dag_id, run_id="r")
    assert await run.wait(timeout=PATIENCE) == "success"
    query = """
        SELECT x.value FROM xcom AS x JOIN dag_run AS r ON r.id = x.run_id
         WHERE r.dag_id = $1 AND x.key = 'return_value' ORDER BY x.task_index
    """
    plain, later = [json.loads(row["value"]) for row in await scheduler.db.fetch(query, dag_id)]
    return plain, later


@pytest.mark.parametrize("kind", [pytest.param("inline", marks=pytest.mark.slow), "local", ENGINE])
async def test_nobody_else_finds_what_belongs_to_a_team(
    settings: Settings, db: Database, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(settings, kind) as scheduler:
        with caplog.at_level(logging.WARNING):
            results = {dag_id: await found_by(scheduler, dag_id) for dag_id in ("beta", "nobody", "alpha")}

    for dag_id in ("beta", "nobody"):
        plain, later = results[dag_id]
        assert plain["variable"].startswith("NoVariable: There is no variable 'of_alpha'.")
        assert plain["variable"] == plain["missing"] == later
        assert plain["connection"].startswith("NotFound: There is no connection 'db_of_alpha'.")
        assert {plain["top"], plain["template"], plain["default"]} == {"nothing"}
        assert plain["delete"].startswith("NotFound: There is no variable 'of_alpha'.")
        assert plain["set"] == (
            "Refused: The variable 'of_alpha' cannot be set: its name is taken. Choose another one."
        )
        assert plain["shared"] == "for all"
        assert "sesame" not in str(results[dag_id])
        assert "hunter2" not in str(results[dag_id])
    for dag_id in ("alpha", "beta"):
        plain, _ = results[dag_id]
        for refused in (plain["change_shared"], plain["delete_shared"]):
            assert refused.startswith(
                "Refused: The variable 'shared' belongs to nobody, and is read by the DAGs of all teams: a task of the "
                f"team {dag_id!r} changes what belongs to its team."
            )
    plain, later = results["alpha"]
    assert {plain["variable"], plain["top"], plain["template"], plain["default"], later} == {"sesame"}
    assert plain["connection"] == "hunter2"
    assert "a task of beta r asked for the variable 'of_alpha' of the team 'alpha', and belongs to the team 'beta'" in (
        caplog.text
    )


@pytest.mark.parametrize("kind", ["inline"])
async def test_what_a_task_creates_belongs_to_the_team_of_its_dag(settings: Settings, db: Database, kind: str) -> None:
    async with serving(settings, kind) as scheduler:
        for dag_id in FOLDERS:
            await found_by(scheduler, dag_id)

    rows = await db.fetch("SELECT key, team FROM variable WHERE key LIKE 'made_by%'")
    assert {row["key"]: row["team"] for row in rows} == {
        "made_by_alpha": "alpha",
        "made_by_beta": "beta",
        "made_by_nobody": None,
    }


@pytest.mark.parametrize(
    ("owner", "team", "may"),
    [
        (None, None, True), ("alpha", "alpha", True), ("none at all", "alpha", True), ("none at all", None, True),
        (None, "alpha", False), ("alpha", "beta", False), ("alpha", None, False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("way", ["set", "delete"])
async def test_a_task_changes_variables_of_its_team_only(
    db: Database, owner: str | None, team: str | None, may: bool, way: str
) -> None:
    """What belongs to nobody is read by all teams: who changes it gives them another value."""
    store = SecretStore(db, Keyring(new_key()))
    await db.execute("INSERT INTO team (name) VALUES ('alpha'), ('beta')")
    is_there = owner != "none at all"
    if is_there:
        await store.set_variables({"v": VariableValue("before")}, team=owner or "")

    async def change() -> None:
        if way == "set":
            await store.set_variables({"v": VariableValue("after")}, reader=Reader(team))
        else:
            await store.delete_variable("v", reader=Reader(team))

    if may and (is_there or way == "set"):
        await change()
    else:
        with pytest.raises((Refused, NotFound)):
            await change()
    rows = await db.fetch("SELECT team, value FROM variable")
    texts = [store.keyring.decrypt(row["value"], what="v") for row in rows]
    if may:
        assert texts == (["after"] if way == "set" else [])
    else:
        assert texts == ["before"]


async def test_parsing_asks_for_the_team_of_the_folder_of_a_file(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with serving(settings, "inline") as scheduler, scheduler.db.acquire() as conn:
            query = (
                "SELECT d.dag_id, v.spec ->> 'description' FROM dag AS d JOIN dag_version AS v ON v.id = d.version_id"
            )
            found = dict(map(tuple, await conn.fetch(query)))

    assert found == {"alpha": "at the top: sesame", "beta": "at the top: nothing", "nobody": "at the top: nothing"}
    assert "the DAG file beta/d.py asked for the variable 'of_alpha' of the team 'alpha'" in caplog.text


async def test_names_of_teams_in_a_backend(settings: Settings, db: Database, tmp_path: Path) -> None:
    for name, text in {"alpha/shop": "own", "shop": "shared", "alpha/only": "own"}.items():
        (tmp_path / "v" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "v" / name).write_text(text)
    table = {"kind": "files", "variables": str(tmp_path / "v"), "team_names": "{team}/{name}"}
    keys = settings.secrets.fernet_keys
    settings.secrets = SecretsSettings.model_validate({"backends": [table], "fernet_keys": keys})
    services = DatabaseServices(db, secret_services(Keyring.of(settings), backends_of(settings)))

    async with serving(settings, "inline") as scheduler:
        for dag_id in FOLDERS:
            await (await scheduler.trigger(dag_id, run_id="r")).wait(timeout=PATIENCE)
        runs = dict(map(tuple, await db.fetch("SELECT dag_id, id FROM dag_run")))

    async def look_up(dag_id: str, name: str) -> Any:
        return json.loads(await services.call(runs[dag_id], "variable", json.dumps({"get": name})))["value"]

    assert [await look_up(dag_id, "shop") for dag_id in FOLDERS] == ["own", "shared", "shared"]
    assert [await look_up(dag_id, "only") for dag_id in FOLDERS] == ["own", None, None]
    assert [await look_up(dag_id, "alpha/only") for dag_id in FOLDERS] == [None, None, None]


async def test_an_unknown_team_cannot_own_anything(settings: Settings, db: Database) -> None:
    store = SecretStore(db, Keyring(new_key()))

    with pytest.raises(NotFound, match=r"There is no team 'alfa'\. Did you mean alpha\?"):
        await store.set_variables({"x": VariableValue("1")}, team="alfa")


# ---- pools ----

POOL_DAG = """
from aiosched import DAG, task

with DAG(DAG_ID, schedule=None):

    @task(pool="pool_of_alpha")
    def uses_it():
        return 1

    uses_it()
"""


@pytest.mark.parametrize("kind", ["inline", ENGINE])
async def test_a_pool_of_a_team_lets_no_task_of_others_in_and_why_says_so(
    settings: Settings, db: Database, kind: str
) -> None:
    for name in FOLDERS:
        (settings.core.dags_folder / name / "d.py").write_text(POOL_DAG.replace("DAG_ID", repr(name)))
    await set_pool(db, "pool_of_alpha", 1, team="alpha", requested_by="a test")
    async with serving(settings, kind) as scheduler:
        async with db.acquire() as conn:
            for dag_id in FOLDERS:  # as if their teams were known before the scheduler has seen them
                await notify(conn, "dags", {partition_of(dag_id)})
        runs = {dag_id: await scheduler.trigger(dag_id, run_id="r") for dag_id in FOLDERS}
        for _ in range(2):  # the pool keeps its team after its slots were used
            assert await runs["alpha"].wait(timeout=PATIENCE) == "success"
            runs["alpha"] = await scheduler.trigger("alpha")

        query = "SELECT r.dag_id, t.state, t.reason FROM task_instance AS t JOIN dag_run AS r ON r.id = t.run_id"
        rows = {row["dag_id"]: tuple(row)[1:] for row in await db.fetch(f"{query} WHERE r.run_id = 'r'")}
        found = await scheduler.why("beta", "r", "uses_it")
        reason = "pool 'pool_of_alpha' belongs to another team: choose a pool that this DAG may use"
        assert rows["beta"] == rows["nobody"] == ("scheduled", reason)
        assert "belongs to another team" in str(found)

        await set_pool(db, "pool_of_alpha", 1, team="", requested_by="a test")
        assert await runs["beta"].wait(timeout=PATIENCE) == "success"


async def test_default_pool_is_for_all_teams(settings: Settings, db: Database) -> None:
    with pytest.raises(Refused, match="default_pool is for the tasks of all teams"):
        await set_pool(db, "default_pool", 5, team="alpha", requested_by="a test")


async def test_a_file_that_is_imported_before_there_is_a_run_reads_what_its_folder_may(
    settings: Settings, db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    services = DatabaseServices(db, secret_services(Keyring(settings.secrets.fernet_keys)))

    async def ask(**by: str) -> Any:
        return json.loads(await services.call(NO_RUN, "variable", json.dumps({"get": "of_alpha", **by})))

    assert await ask(file="alpha/d.py", bundle="") == {"value": "sesame"}
    with caplog.at_level(logging.WARNING):
        assert await ask(file="beta/d.py", bundle="") == {"value": None}
    assert "beta/d.py" in caplog.text
    assert await ask(file="nobody/d.py", bundle="") == {"value": None}
    with pytest.raises(Refused, match="No run asks"):
        await ask()
