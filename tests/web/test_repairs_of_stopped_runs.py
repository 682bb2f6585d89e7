"""What a stop of a run left undone is done by a repair from each face: command line, API, bulk actions, `/api/v2`.

Other stops and repairs: tests/testing/test_world_stopped_runs.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from aiosched import DAG, task, task_group
from aiosched.config import Settings, WebSettings
from aiosched.db.crypto.keyring import new_key
from aiosched.scheduler import Scheduler
from tests.cli.conftest import Cli


@dataclass
class Place:
    """A scheduler whose DAG `d` had a run `r` that fail_fast has stopped, and its faces."""

    scheduler: Scheduler
    http: httpx2.AsyncClient
    cli: Cli
    ran: list[str] = field(default_factory=list)
    is_mended: bool = False
    others_began: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, *words: str) -> Any:
        """What a command answers; it runs beside the scheduler."""
        return await asyncio.to_thread(self.cli.json, *words)

    async def post(self, path: str, body: dict[str, Any]) -> Any:
        """What the API answers."""
        answer = await self.http.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def states(self) -> dict[str, set[str]]:
        """The states of the run's instances, by task."""
        found: dict[str, set[str]] = {}
        listed = (await self.http.get("api/v1/dags/d/runs/r/tasks")).json()
        for one in listed.get("items", listed.get("tasks")):
            found.setdefault(one["task_id"], set()).add(one["state"])
        return found

    def dag(self) -> DAG:
        """A failure beside a branch, a mapped task, a mapped group and work with a teardown."""

        @task
        async def bad() -> None:
            if not self.is_mended:
                await self.others_began.wait()
                raise RuntimeError("boom")

        @task
        async def slow() -> list[int]:
            self.ran.append("slow")
            if not self.is_mended:
                await asyncio.Event().wait()
            return [1, 2]

        @task.branch
        async def choose() -> str:
            self.ran.append("choose")
            self.others_began.set()
            return "chosen"

        @task
        async def done(value: Any = None) -> int:
            return 1

        @task_group
        def each(value: Any) -> None:
            done.override(task_id="inner")(value)

        with DAG("d", schedule=None, fail_fast=True) as dag:
            bad()
            values = slow()
            done.override(task_id="mapped").expand(value=values)
            each.expand(value=[1, 2]).set_upstream(values)
            setup = done.override(task_id="setup")().as_setup()
            (
                values
                >> setup
                >> done.override(task_id="work")()
                >> done.override(task_id="tidy")().as_teardown(setups=setup)
            )
            choose() >> [done.override(task_id="chosen")(), done.override(task_id="left")()]
        return dag


@pytest.fixture
async def place(answered: None, dsn: str, tmp_path: Path) -> AsyncIterator[Place]:
    settings = Settings(web=WebSettings(auth="none", airflow_api=True))
    settings.core.home = tmp_path
    settings.secrets.fernet_keys = new_key()
    place = Place(None, None, Cli(dsn, tmp_path))  # type: ignore[arg-type]
    async with Scheduler(dsn=dsn, dags=[place.dag()], settings=settings) as place.scheduler:
        transport = httpx2.ASGITransport(app=place.scheduler.web_app())
        async with httpx2.AsyncClient(transport=transport, base_url="http://host.example/") as place.http:
            await place.scheduler.trigger("d", run_id="r")
            await place.scheduler.wait_idle()
            before = await place.states()
            assert (before["work"], before["mapped"], before["left"]) == ({"skipped"}, {"skipped"}, {"skipped"}), before
            place.is_mended = True
            yield place


RUN = {"dag_id": "d", "run_id": "r"}
REPAIRS: dict[str, Callable[[Place], Awaitable[Any]]] = {
    "runs clear": lambda it: it.ask("runs", "clear", "d", "r", "--only-failed", "--yes"),
    "tasks clear": lambda it: it.ask("tasks", "clear", "d", "--run", "r", "--only-failed", "--yes"),
    "tasks clear of one": lambda it: it.ask("tasks", "clear", "d", "--run", "r", "--task-id", "bad", "--yes"),
    "runs bulk": lambda it: it.ask("runs", "bulk", "clear", "--state", "failed", "--only-failed", "--yes"),
    "tasks bulk": lambda it: it.ask("tasks", "bulk", "clear", "--state", "failed", "--yes"),
    "api": lambda it: it.post("api/v1/dags/d/clear", {"run_ids": ["r"], "only_failed": True}),
    "api of one": lambda it: it.post("api/v1/dags/d/clear", {"run_ids": ["r"], "task_ids": ["bad"]}),
    "bulk": lambda it: it.post("api/v1/bulk", {"action": "clear", "runs": [RUN], "only_failed": True}),
    "bulk of tasks": lambda it: it.post(
        "api/v1/bulk", {"action": "clear", "tasks": [{**RUN, "task_id": "bad", "map_index": -1}]}
    ),
    "api/v2": lambda it: it.post("api/v2/dags/d/clearTaskInstances", {"dag_run_id": "r", "dry_run": False}),
    "api/v2 of one": lambda it: it.post(
        "api/v2/dags/d/clearTaskInstances",
        {"dag_run_id": "r", "dry_run": False, "only_failed": False, "task_ids": ["bad"]},
    ),
    "api/v2 of the run": lambda it: it.post("api/v2/dags/d/dagRuns/r/clear", {"dry_run": False, "only_failed": True}),
}

QUICK = ("runs clear", "bulk of tasks", "api/v2")


@pytest.mark.parametrize(
    "repair", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in REPAIRS]
)
async def test_a_repair_does_all_that_a_stop_left_undone(place: Place, repair: str) -> None:
    await REPAIRS[repair](place)
    await place.scheduler.wait_idle()

    assert await place.states() == {
        task_id: {"skipped" if task_id == "left" else "success"}
        for task_id in ("bad", "slow", "mapped", "each.inner", "setup", "work", "tidy", "choose", "chosen", "left")
    }
    assert (await place.http.get("api/v1/dags/d/runs/r")).json()["state"] == "success"
    assert place.ran.count("choose") == 1


async def test_why_says_what_the_stop_left_undone(place: Place) -> None:
    repair = "aiosched runs clear d r --only-failed"
    run = await place.ask("why", "d", "r")
    undone = await place.ask("why", "d", "r", "work")
    skipped = await place.ask("why", "d", "r", "left")

    assert run["summary"].endswith("a task failed: bad (RuntimeError: boom); its stop left 7 task instances undone")
    assert run["gates"][0]["detail"] == "4 of 11 task instances done"
    assert (run["commands"][-1], undone["commands"]) == (repair, [repair])
    assert "left it undone: it runs when anything in the run is cleared" in undone["gates"][0]["detail"]
    assert (skipped["summary"], skipped["gates"][0]["detail"]) == ("skipped by choose", "skipped by choose")
