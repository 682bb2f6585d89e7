"""`/why` of DAGs, runs and task instances."""

from __future__ import annotations

import httpx2
import pytest

from aiosched.db.server.engine import Database
from tests.cli.records import NOON, add_dag, add_run, add_task


@pytest.fixture
async def waiting(db: Database) -> None:
    """A run of which the first task waits for a slot, without any scheduler."""
    version = await add_dag(db, "sales")
    run = await add_run(db, "sales", version, "r:1", logical_date=NOON)
    await add_task(db, run, 0, "scheduled", try_number=1, scheduled_at=NOON)
    await add_task(db, run, 1, None)


@pytest.mark.usefixtures("waiting")
async def test_a_dag_a_run_and_a_task_are_explained(api: httpx2.AsyncClient) -> None:
    for path, subject in (
        ("dags/sales/why", "sales"),
        ("dags/sales/runs/r:1/why", "sales · 2026-11-20T12:00"),
        ("dags/sales/runs/latest/tasks/load/why", "sales · 2026-11-20T12:00 · load"),
    ):
        answer = await api.get(path)

        assert answer.status_code == 200, answer.text
        said = answer.json()
        assert said["subject"] == subject
        assert said["gates"]
        assert said["commands"][0] in ("aiosched serve", "aiosched dags trigger sales")


@pytest.mark.usefixtures("waiting")
async def test_gates_have_verdicts_details_and_holders(api: httpx2.AsyncClient) -> None:
    said = (await api.get("dags/sales/runs/r:1/tasks/extract/why")).json()

    assert said["gates"][0] == {
        "name": "scheduler", "verdict": "wait", "detail": "no scheduler is alive", "holders": [], "opens_at": None,
        "commands": ["aiosched serve"],
    }  # fmt: skip
    assert (said["state"], said["since"], said["rank"]) == ("scheduled", "2026-11-20T12:00:00Z", 1)


@pytest.mark.usefixtures("waiting")
@pytest.mark.parametrize(
    "path",
    ["dags/salse/why", "dags/sales/runs/x/why", "dags/sales/runs/r:1/tasks/laod/why"],
    ids=["dag", "run", "task"],
)
async def test_what_is_not_there_is_not_found(api: httpx2.AsyncClient, path: str) -> None:
    answer = await api.get(path)

    assert answer.status_code == 404
    assert answer.json()["code"] == "not-found"
