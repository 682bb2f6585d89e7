"""The rule of outcomes: how runs end does not depend on what happens to machines.

Part of the checker (checker.py): it works out from the plan which instances a run has and how each of them ends,
and knows nothing of how schedulers work. Source: the semantics reference, sections 7, 9 and 26.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from aiosched.core.graph.spec import LiteralLength, MapInput, TaskOutput, TaskSpec
from tests.simulation.grouping import counterparts, groups_around, units
from tests.simulation.history import Row

if TYPE_CHECKING:
    from tests.simulation.checker import Checker

Ends = dict[str, dict[int, str]]  # how the instances of each task end, by task id and map index
_FAILURES = frozenset({"failed", "upstream_failed"})


class Outcomes:
    """Is asked about each run when everything is over."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker

    def check(self, key: int, run: Row) -> None:
        """Object to a run that has ended otherwise than planned, unless a task was lost three times in a row."""
        rows = {k: row for k, row in self._checker.rows["task_instance"].items() if k[0] == key}
        lost = any(row["losses"] >= 3 and row["state"] == "failed" for row in rows.values())
        if lost or self._cancelled(run):
            return
        found: Ends = {}
        for instance, row in rows.items():
            if row["state"] != "removed":
                found.setdefault(self._checker.task(instance).task_id, {})[instance[2]] = row["state"]
        ends = self._planned(key, run)
        name = f"{run['dag_id']}/{run['run_id']}"
        if found != ends:
            self._checker.say("outcome", f"{name} ended as {found}, not as {ends}")
        expected = "failed" if any("failed" in states.values() for states in ends.values()) else "success"
        if run["state"] != expected:
            self._checker.say("outcome", f"{name} is {run['state']}, not {expected}")

    def _planned(self, key: int, run: Row) -> Ends:
        ends: Ends = {}
        spec = self._checker.spec(key)
        for task in spec.tasks:
            if groups_around(spec, task):
                ends[task.task_id] = self._in_group(key, task, ends)
                continue
            end = self._end(run["dag_id"], task, ends)
            number = None if task.mapping is None else self._number(key, task.mapping.inputs, ends)
            if number == 0 and end not in _FAILURES:
                end = "skipped"
            expanded = number and (end not in _FAILURES | {"skipped"} or not task.upstream)
            ends[task.task_id] = dict.fromkeys(range(number) if expanded and number else (-1,), end)
        return ends

    def _in_group(self, key: int, task: TaskSpec, ends: Ends) -> dict[int, str]:
        """How the instances of a task in mapped groups end: each depends on those that belong to it."""
        spec = self._checker.spec(key)
        tasks = {other.task_id: other for other in spec.tasks}
        number = math.prod(self._number(key, unit, ends) for unit in units(spec, task))
        found = {}
        for index in range(number) if number else (-1,):
            mine: Ends = {}
            for up in task.upstream:
                concerned = counterparts(spec, task, index, tasks[up], ends[up])
                mine[up] = {other: ends[up][other] for other in concerned}
            found[index] = self._end(spec.dag_id, task, mine)
            if (
                self._checker.plan.behaviour.broken.get((spec.dag_id, task.task_id)) == index
                and found[index] == "success"
            ):
                found[index] = "failed"
        return found if number or found[-1] in _FAILURES else {-1: "skipped"}

    def _end(self, dag_id: str, task: TaskSpec, ends: Ends) -> str:
        """How a task ends, or each of its instances."""
        behaviour = self._checker.plan.behaviour
        ups = {end for up in task.upstream for end in ends[up].values()}
        followed = {behaviour.branches.get((dag_id, up), task.task_id) for up in task.upstream}
        if followed - {task.task_id}:
            return "skipped"
        if ups & _FAILURES:
            return "upstream_failed"
        if "skipped" in ups and (task.trigger_rule == "all_success" or "success" not in ups):
            return "skipped"
        failures = behaviour.failures.get((dag_id, task.task_id), 0)
        wait = behaviour.waits.get((dag_id, task.task_id))
        if wait is not None and not wait.fires:  # for something that never comes
            failures = max(failures, wait.late)
        return "failed" if failures > task.retries else "success"

    def _number(self, key: int, inputs: tuple[MapInput, ...], ends: Ends) -> int:
        """How many instances a mapped task has in the end."""
        return math.prod(self._length(key, each, ends) for each in inputs)

    def _length(self, key: int, mapped: MapInput, ends: Ends) -> int:
        if isinstance(mapped, LiteralLength):
            return mapped.length
        assert isinstance(mapped, TaskOutput)
        spec = self._checker.spec(key)
        index = [task.task_id for task in spec.tasks].index(mapped.task_id)
        if units(spec, spec.tasks[index]):
            return list(ends[mapped.task_id].values()).count("success")
        counted = self._checker.rows["task_instance"][key, index, -1]["try_number"]
        return self._checker.plan.behaviour.length(spec.dag_id, mapped.task_id, counted) or 0

    def _cancelled(self, run: Row) -> bool:
        if self._checker.backfills.was_cancelled(run):
            return True
        cancels = (c for c in self._checker.history.tables["request"].values() if c["verb"] == "cancel_run")
        return any((c["dag_id"], json.loads(c["args"])["run_id"]) == (run["dag_id"], run["run_id"]) for c in cancels)
