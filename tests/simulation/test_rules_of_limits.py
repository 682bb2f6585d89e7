"""The checker's rule of limits on runs: who may start beyond one, judged by what a commit shows."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from aiosched.core.graph.spec import DagSpec, TaskSpec
from tests.simulation.checker_limits import RunLimits
from tests.simulation.history import Commit, RowChange

TASK = TaskSpec(task_id="a", operator="Simulated", depends_on_past=True)


def objections(*, limit: int, running: str = "", starts: str, under_way: str = "") -> list[str]:
    """What the rule says of a commit in which the runs of `starts` start while those of `running` run.

    Runs are letters in the order of their logical dates, each waits for the one before. Of those in `under_way` a
    task runs.
    """
    said: list[str] = []
    runs = {name: {"id": name, "dag_id": "d", "backfill_id": None, "state": "running"} for name in running + starts}
    checker: Any = SimpleNamespace(
        rows={"dag_run": runs, "task_instance": {(name, 0, -1): {"state": "running"} for name in under_way}},
        specs={"d": DagSpec(dag_id="d", tasks=(TASK,), max_active_runs=limit, catchup=True)},
        pasts=SimpleNamespace(
            runs_before=lambda name, manual: [runs[one] for one in sorted(runs, reverse=True) if one < name],
            created=dict.fromkeys(runs, 0.0),
        ),
        history=SimpleNamespace(seen=Counter()),
        at=100.0,
        say=lambda rule, text: said.append(text),
    )
    changes = [RowChange("dag_run", name, {**runs[name], "state": "queued"}, runs[name]) for name in starts]
    RunLimits(checker).commit(Commit(100.0, 1, 1, changes))
    return said


@pytest.mark.parametrize(
    "scene",
    [
        {"limit": 2, "starts": "ab"},
        {"limit": 1, "running": "b", "starts": "a"},  # b waits for it, and stands still
        {
            "limit": 1,
            "starts": "ab",
            "under_way": "a",
        },  # b has started, then a, which b waits for; one commit stored it
        {"limit": 2, "running": "d", "starts": "ac", "under_way": "a"},
    ],
)
def test_a_run_may_start_that_others_wait_for(scene: dict[str, Any]) -> None:
    assert objections(**scene) == []


@pytest.mark.parametrize(
    "scene",
    [
        {"limit": 1, "running": "a", "starts": "b"},
        {"limit": 1, "running": "b", "starts": "a", "under_way": "b"},
        {"limit": 1, "starts": "abc", "under_way": "a"},
        {"limit": 1, "starts": "ab", "under_way": "b"},
    ],
)
def test_no_other_run_may_start_beyond_the_limit(scene: dict[str, Any]) -> None:
    number = len(scene.get("running", "") + scene["starts"])

    assert objections(**scene) == [f"{number} runs of d are running, {scene['limit']} may"]
