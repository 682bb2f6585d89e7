"""One action on many runs and task instances: what is asked of whom, the preview, and what is refused."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from aiosched.core.requests.bulk import DagRequest, requests_of
from aiosched.core.requests.requests import CancelRun, Clear, MarkRun, MarkTasks, SetNote
from aiosched.core.values.states import RunState, TaskState
from aiosched.db.server.engine import Database
from aiosched.web.api.lists.bulk import BulkAction, selected
from tests.cli.records import add_dag, add_run, add_task

RUNS = [{"dag_id": "a", "run_id": "r1"}, {"dag_id": "a", "run_id": "r2"}, {"dag_id": "b", "run_id": "r1"}]
TASKS = [
    {"dag_id": "a", "run_id": "r1", "task_id": "t"},
    {"dag_id": "a", "run_id": "r2", "task_id": "t"},
    {"dag_id": "a", "run_id": "r1", "task_id": "m", "map_index": 3},
]


def asked(**body: Any) -> list[DagRequest]:
    action = BulkAction.model_validate(body)
    return requests_of(action.meant, selected(action))


def test_an_action_becomes_requests_that_name_exactly_what_was_selected() -> None:
    both, one = ("r1", "r2"), ("r1",)
    assert asked(action="clear", runs=RUNS, only_failed=True) == [
        DagRequest("a", both, Clear(run_ids=both, only_failed=True, dependents=False)),
        DagRequest("b", one, Clear(run_ids=one, only_failed=True, dependents=False)),
    ]
    assert [each.request for each in asked(action="mark", tasks=TASKS, state="skipped")] == [
        MarkTasks(run_ids=both, task_ids=("t",), state=TaskState.SKIPPED),
        MarkTasks(run_ids=one, task_ids=("m",), map_index=3, state=TaskState.SKIPPED),
    ]
    assert [each.request for each in asked(action="mark", runs=RUNS[:1], state="queued")] == [
        MarkRun(run_id="r1", state=RunState.QUEUED)
    ]
    assert [each.request for each in asked(action="cancel", runs=RUNS[2:])] == [CancelRun(run_id="r1")]
    assert [each.request for each in asked(action="note", tasks=TASKS[2:], note="n")] == [
        SetNote(run_id="r1", task_id="m", map_index=3, note="n")
    ]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"action": "clear"}, "names no runs and no tasks"),
        ({"action": "mark", "runs": RUNS}, "mark needs a `state`"),
        ({"action": "mark", "runs": RUNS, "state": "skipped"}, "a run cannot be marked skipped"),
        ({"action": "mark", "tasks": TASKS, "state": "queued"}, "clear it"),
        ({"action": "note", "runs": RUNS}, "note needs a `note`"),
        ({"action": "cancel", "tasks": TASKS}, "cancel is for runs"),
    ],
)
async def test_an_action_that_means_nothing_is_refused(api: httpx2.AsyncClient, body: Any, words: str) -> None:
    answer = await api.post("bulk", json=body)

    assert answer.status_code == 422
    assert words in answer.text


async def test_one_preview_shows_what_an_action_touches_in_all_dags(db: Database, api: httpx2.AsyncClient) -> None:
    for dag_id in ("a", "b"):
        version = await add_dag(db, dag_id)
        for run_id, state in (("r1", "failed"), ("r2", "running")):
            run = await add_run(db, dag_id, version, run_id, state=state)
            await add_task(db, run, 0, "success")
            await add_task(db, run, 1, "failed" if state == "failed" else "running")

    async def preview(**body: Any) -> dict[str, Any]:
        answer = await api.post("bulk", json=body | {"dry_run": True})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    cleared = await preview(action="clear", runs=RUNS[:1] + RUNS[2:], only_failed=True)
    assert (cleared["count"], cleared["runs"], cleared["dags"]) == (2, 2, 2)
    assert cleared["states"] == {"failed": 2}
    assert [(one["dag_id"], one["task_id"]) for one in cleared["instances"]] == [("a", "load"), ("b", "load")]

    cancelled = await preview(action="cancel", runs=RUNS)
    assert (cancelled["count"], cancelled["runs"], cancelled["states"]) == (1, 1, {"running": 1})
    assert [(one["dag_id"], one["about"]) for one in cancelled["refused"]] == [("a", "r1"), ("b", "r1")]
    assert "failed already" in cancelled["refused"][0]["detail"]

    async with db.acquire() as conn:
        assert await conn.fetchval("SELECT count(*) FROM request") == 0
        assert await conn.fetchval("SELECT count(*) FROM audit_log") == 0
    assert (
        await api.post("bulk", json={"action": "cancel", "runs": [{"dag_id": "no", "run_id": "r"}]})
    ).status_code == 404
