"""Template fields of tasks that really run: stored with their tries, kept for some runs, rendered on request."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aiosched import Scheduler
from aiosched.config import Settings
from aiosched.core.requests.requests import Render
from aiosched.core.values.messages import AttemptKey
from aiosched.db.crypto.keyring import Keyring, new_key
from aiosched.db.people.secrets import SecretStore, VariableValue
from aiosched.db.queries.queries import find_run, list_run_tasks
from aiosched.db.server.engine import Database
from aiosched.db.statements.inbox import ask_owner
from aiosched.db.statements.rendered_fields import find_rendered, forget_rendered
from aiosched.errors import NotFound, Refused
from tests.executors.attempt_builders import write_dag
from tests.patience import PATIENCE

pytestmark = pytest.mark.usefixtures("kept_supervisors")

SAYS = """
from pathlib import Path
from aiosched import BashOperator, DAG, task

with DAG("says", params={"n": 1}):
    say = BashOperator(
        task_id="say",
        bash_command="echo {{ params.n }} {{ var.value.api_token }} {{ 'x' * 9000 }} > /dev/null",
        env={"ANSWER": "{{ 6 * 7 }}", "PASSWORD": "{{ 'open sesame' }}"},
    )

    @task
    def hello(word):
        return word

    @task(templates_dict={"day": "{{ run_id }}"})
    async def later(templates_dict=None):
        return templates_dict["day"]

    say >> hello("plain") >> later()

    @task(map_index_template="{{ 'region ' ~ task.op_kwargs['region'] }}")
    def load(region):
        return region

    load.expand(region=["north", "south"])

with DAG("waits"):
    BashOperator(task_id="gate", bash_command="until test -e {{ dag_run.conf.gate }}; do sleep 0.05; done")

with DAG("wrong"):
    BashOperator(task_id="broken", bash_command="echo {{ nothing_of_this_name.at_all }}")
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    found = Settings()
    found.core.home = tmp_path / "home"
    found.core.killed_task_cleanup_time = 0.0
    found.executor.slots = 2
    found.secrets.fernet_keys = new_key()
    return found


@pytest.fixture
def dags(tmp_path: Path) -> Path:
    folder = tmp_path / "dags"
    folder.mkdir()
    write_dag(folder, SAYS)
    return folder


async def stored(db: Database, run: int, task_index: int, try_number: int = 1) -> dict[str, Any] | None:
    key = AttemptKey(run, task_index, -1, try_number)
    return (await find_rendered(db, [key])).get(key)


async def ask(db: Database, dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
    request = Render(run_id=run_id, task_id=task_id)
    answer = await ask_owner(db, request, dag_id, requested_by="a test", timeout=PATIENCE)
    assert answer.result is not None
    return answer.result


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("executor", ["local", "inline"])
async def test_the_fields_of_a_try_are_stored_with_it_masked_and_cut(
    dsn: str, dags: Path, settings: Settings, executor: str
) -> None:
    async with Scheduler(dsn=dsn, dags_folder=dags, executor=executor, settings=settings) as scheduler:
        store = SecretStore(scheduler.db, Keyring.of(settings))
        await store.set_variables({"api_token": VariableValue("s3cr3t-value")})
        run = await scheduler.trigger("says", conf={"n": 7})
        assert await run.wait(PATIENCE) == "success"

        said, plain, later = [await stored(scheduler.db, run.key, index) for index in (0, 1, 2)]
        shown = await find_run(scheduler.db, "says", run.run_id)
        mapped = await list_run_tasks(scheduler.db, shown, task_id="load")

    assert [one.map_label for one in mapped] == ["region north", "region south"]
    assert said is not None
    assert said["env"] == {"ANSWER": "42", "PASSWORD": "***"}
    assert said["bash_command"].startswith("echo 7 *** xxx")
    assert "core.max_templated_field_length" in said["bash_command"]
    assert len(said["bash_command"]) < 4_300
    assert plain is None, "a task without templates stores nothing"
    assert later is not None
    assert later["templates_dict"] == {"day": run.run_id}


async def test_they_are_there_while_the_task_still_runs(dsn: str, dags: Path, settings: Settings) -> None:
    gate = dags.parent / "gate"
    async with Scheduler(dsn=dsn, dags_folder=dags, executor="local", settings=settings) as scheduler:
        run = await scheduler.trigger("waits", conf={"gate": str(gate)})

        async with asyncio.timeout(PATIENCE):
            while (fields := await stored(scheduler.db, run.key, 0)) is None:  # noqa: ASYNC110  # rows of a scheduler
                await asyncio.sleep(0.02)

        assert str(gate) in fields["bash_command"]
        gate.touch()
        assert await run.wait(PATIENCE) == "success"
        assert await stored(scheduler.db, run.key, 0) == fields


async def test_what_has_not_run_is_rendered_on_request_by_a_worker(dsn: str, dags: Path, settings: Settings) -> None:
    async with Scheduler(dsn=dsn, dags_folder=dags, executor="local", settings=settings) as scheduler:
        gate = dags.parent / "gate"
        run = await scheduler.trigger("waits", conf={"gate": str(gate)})
        answer = await ask(scheduler.db, "waits", run.run_id, "gate")
        assert str(gate) in answer["fields"]["bash_command"]
        gate.touch()
        assert await run.wait(PATIENCE) == "success"

        with pytest.raises(NotFound, match="ghost"):
            await ask(scheduler.db, "waits", "ghost", "gate")
        with pytest.raises(NotFound, match="ghost"):
            await ask(scheduler.db, "waits", run.run_id, "ghost")
        broken = await scheduler.trigger("wrong")
        assert await broken.wait(PATIENCE) == "failed"
        with pytest.raises(Refused, match="nothing_of_this_name"):
            await ask(scheduler.db, "wrong", broken.run_id, "broken")
        assert await scheduler.db.fetchval("SELECT count(*) FROM request WHERE state = 'waiting'") == 0


async def test_they_are_kept_for_the_newest_runs_of_a_dag(dsn: str, dags: Path, settings: Settings) -> None:
    async with Scheduler(dsn=dsn, dags_folder=dags, executor="local", settings=settings) as scheduler:
        (dags.parent / "gate").touch()
        runs = [await scheduler.trigger("waits", conf={"gate": str(dags.parent / "gate")}) for _ in range(3)]
        for run in runs:
            assert await run.wait(PATIENCE) == "success"

        async with scheduler.db.acquire() as conn:
            assert await forget_rendered(conn, range(64), keep=2, runs=100) == 1
            assert await forget_rendered(conn, range(64), keep=2, runs=100) == 0

        kept = [await stored(scheduler.db, run.key, 0) is not None for run in sorted(runs, key=lambda run: run.key)]
    assert kept == [False, True, True]
