"""Secrets of backends as tasks get them: their order, their masking, and what a failing backend does to an attempt."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aiosched.authoring.base.settings import AuthoringDefaults, use_defaults
from aiosched.config import SecretsSettings, Settings
from aiosched.core.values.masking import secrets
from aiosched.db.crypto.keyring import Keyring, new_key
from aiosched.db.people.secrets import SecretStore, VariableValue
from aiosched.db.server.engine import Database
from aiosched.scheduler import Scheduler
from tests.patience import PATIENCE
from tests.scheduler.test_secret_services import ask

pytestmark = pytest.mark.usefixtures("kept_supervisors")

READS = """
from aiosched import DAG, Connection, Variable, task

TOP = Variable.get("in_backend")

with DAG("reads", schedule=None, description=TOP):

    @task
    def plain(text):
        print("it is", Variable.get("plain_word"))
        names = ("in_backend", "in_environment", "in_database", "in_all", "in_two")
        return [TOP, text, *map(Variable.get, names), Connection.get("shop").host]

    @task
    async def later():
        return await Variable.aget("in_all")

    plain("{{ var.value.in_all }}"), later()
"""


@pytest.fixture(autouse=True)
async def _clean() -> AsyncIterator[None]:
    yield
    secrets.clear()
    use_defaults(AuthoringDefaults())


@pytest.fixture
async def settings(tmp_path: Path, dsn: str, db: Database, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A backend of files, the environment and the database, with some names in several of them."""
    found = Settings()
    found.core.home, found.core.dags_folder, found.database.dsn = tmp_path / "home", tmp_path / "dags", dsn
    for name in ("dags", "v", "c"):
        (tmp_path / name).mkdir()
    (tmp_path / "dags" / "reads.py").write_text(READS)
    for name, text in {"in_backend": "backend", "in_all": "backend", "plain_word": "periwinkle"}.items():
        (tmp_path / "v" / name).write_text(text)
    (tmp_path / "c" / "shop").write_text("postgres://u:hunter2@shop.example.com/x")
    table = {"kind": "files", "variables": str(tmp_path / "v"), "connections": str(tmp_path / "c")}
    found.secrets = SecretsSettings.model_validate({"backends": [table], "fernet_keys": new_key()})
    for name in ("in_environment", "in_all", "in_two"):
        monkeypatch.setenv(f"AIOSCHED_VAR_{name.upper()}", "environment")
    stored = {name: VariableValue("database") for name in ("in_database", "in_all", "in_two")}
    await SecretStore(db, Keyring(found.secrets.fernet_keys)).set_variables(stored)
    return found


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("kind", ["inline", "local"])
async def test_backends_come_before_the_environment_and_that_before_the_database(
    settings: Settings, db: Database, kind: str
) -> None:
    async with Scheduler(dags_folder=settings.core.dags_folder, executor=kind, settings=settings) as scheduler:
        await scheduler.read_folder()
        run = await scheduler.trigger("reads", run_id="r")

        assert await run.wait(timeout=PATIENCE) == "success"

    async with db.acquire() as conn:
        found = [row["value"] for row in await conn.fetch("SELECT value FROM xcom ORDER BY task_index")]
        description = await conn.fetchval("SELECT spec ->> 'description' FROM dag_version")
    names = '"backend", "environment", "database", "backend", "environment"'
    assert found[0].replace('","', '", "') == f'["backend", "backend", {names}, "shop.example.com"]'
    assert found[1] == '"backend"'
    assert description == "backend"
    logs = "".join(path.read_text() for path in settings.logs_folder.rglob("*.log"))
    if kind == "local":  # `inline` keeps no logs
        assert "it is ***" in logs  # whatever its name is: it comes from a place for secrets
    assert "periwinkle" not in logs


HANGS = """
from datetime import timedelta
from aiosched import DAG, Variable, task

with DAG("asks", schedule=None):

    @task(retries=1, retry_delay=timedelta(seconds=1))
    def asks():
        return Variable.get("in_backend")

    @task
    def does_not():
        return 1

    asks(), does_not()
"""


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("kind", ["inline", "local"])
async def test_a_backend_that_fails_is_an_error_of_the_attempt_only(
    settings: Settings, db: Database, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "dags" / "reads.py").write_text(HANGS)
    (tmp_path / "v" / "in_backend").unlink()
    (tmp_path / "v" / "in_backend").symlink_to("/etc/hostname")
    async with Scheduler(dags_folder=settings.core.dags_folder, executor=kind, settings=settings) as scheduler:
        await scheduler.read_folder()
        run = await scheduler.trigger("asks", run_id="r")

        assert await run.wait(timeout=PATIENCE) == "failed"

    rows = await db.fetch("SELECT state, reason, try_number FROM task_instance ORDER BY task_index")
    assert [row["state"] for row in rows] == ["failed", "success"]
    assert "The backend files was asked for the variable 'in_backend' and has failed" in rows[0]["reason"]
    assert rows[0]["try_number"] == 2


async def test_a_wrong_connection_in_a_backend_is_refused_without_its_text(
    settings: Settings, db: Database, tmp_path: Path
) -> None:
    from aiosched.backends.kinds import backends_of
    from aiosched.errors import Refused
    from aiosched.scheduler.services.secret_services import secret_services
    from aiosched.scheduler.services.task_services import DatabaseServices

    (tmp_path / "c" / "shop").write_text("no-uri-but-hunter2")
    services = DatabaseServices(db, secret_services(Keyring.of(settings), backends_of(settings)))

    with pytest.raises(Refused, match="'shop': its URI does not begin with a type") as caught:
        await services.call(1, "connection", '{"get": "shop"}')

    assert "hunter2" not in str(caught.value)
    assert await ask(db, Keyring.of(settings), "connection", get="shop") == {"value": None}
