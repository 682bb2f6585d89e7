"""The log of a world's decisions, and the scripts by which its attempts end."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from aiosched.core.graph.graph import Graph
from aiosched.core.run.board import Run
from aiosched.core.values.messages import Attempt, Deferral, Outcome
from aiosched.db.statements.deadlines import DeadlineRow
from aiosched.db.statements.journal import InstanceChange
from aiosched.errors import NotFound, did_you_mean
from aiosched.scheduler.memory.cache import StateCache
from aiosched.scheduler.memory.changes import Changes
from aiosched.testing.attempts.acting import Authored, decides, decides_as_trigger, is_check, is_sensor, pokes
from aiosched.testing.attempts.endings import NO_TIME, Ending, Play, Scripted, fails, succeeds, trigger_ending
from aiosched.testing.attempts.outcomes import ScriptedTask
from aiosched.testing.rows.assets import names_by_uri
from aiosched.testing.rows.rows import Rows

_SUCCEEDS: Final = succeeds()

Script = Scripted | Ending | Play
Words = dict[str, Any]

Decision = tuple[datetime, str, str, str, str | None, int, int]
"""(instant, what, DAG id, run id, task id, map index, try number); of a run: None, -1, 0.

`what` is the new state of a task instance, or of a run "run created", "run queued" (again), "run running",
"run success", "run failed", "deadline missed".
"""


class DecisionLog:
    """The stored decisions, in order. Equal input and seed give equal entries."""

    def __init__(self, *, keep: bool) -> None:
        self.entries: list[Decision] = []
        self._keep = keep

    def created(self, runs: Iterable[Run], at: datetime) -> None:
        if self._keep:
            self.entries += [(at, "run created", run.dag_id, run.run_id, None, -1, 0) for run in runs]

    def committed(self, batch: Changes, rows: Rows, cache: StateCache, at: datetime) -> None:
        if not self._keep:
            return
        runs, versions, add = rows.runs, cache.versions, self.entries.append
        for change in batch.tasks.instances:
            run = runs[change.run_id]
            task_id = versions[run.version_id][1].task_ids[change.task_index]
            add((at, change.state or "none", run.dag_id, run.run_id, task_id, change.map_index, change.try_number))
        for ended in batch.runs.changed:
            run = runs[ended.id]
            add((at, f"run {ended.state}", run.dag_id, run.run_id, None, -1, 0))

    def missed(self, deadlines: Iterable[DeadlineRow], rows: Rows, at: datetime) -> None:
        if self._keep:
            runs = [rows.runs[row.run_id] for row in deadlines]
            self.entries += [(at, "deadline missed", run.dag_id, run.run_id, None, -1, 0) for run in runs]

    def moved(self, row: InstanceChange, rows: Rows, cache: StateCache, at: datetime) -> None:
        run = rows.runs[row.run_id]
        task_id = cache.versions[run.version_id][1].task_ids[row.task_index]
        self.entries.append((at, row.state or "none", run.dag_id, run.run_id, task_id, row.map_index, row.try_number))


class Scripts:
    """Which script an attempt follows: the task's, else the DAG's, else the common one. Implements `executor.Book`."""

    def __init__(self, rows: Rows, dags: Authored) -> None:
        self._rows, self._dags = rows, dags
        self._plays: dict[tuple[str, str], Script] = {}
        self._facts: dict[tuple[int, int], ScriptedTask] = {}  # by version and task index
        self._names: dict[str, str] | None = None

    def put(self, dag_id: str, task_id: str, play: Play | Ending | None, graph: Graph | None, words: Words) -> None:
        """Set a script. Raises NotFound for a task that the DAG does not have, TypeError for an invalid script."""
        if play is not None and words:
            raise TypeError(f"script({dag_id!r}, {task_id!r}): give a function, an ending or words, not both.")
        if graph is not None and task_id != "*" and task_id not in graph.index:
            raise NotFound(f"DAG {dag_id!r} has no task {task_id!r}.{did_you_mean(task_id, graph.index)}")
        if isinstance(words.get("branch"), str):
            words = words | {"branch": (words["branch"],)}
        sets_result = bool(words.keys() - {"takes", "every", "fails"})
        self._plays[dag_id, task_id] = play or Scripted(**words, sets_result=sets_result)

    def learn(self, version: int) -> None:
        """A DAG was added or changed: drop what is cached about this version."""
        self._facts = {place: facts for place, facts in self._facts.items() if place[0] != version}
        self._names = None

    def ending_of(self, attempt: Attempt, now: datetime) -> Ending:
        """See Book. Without a script, acting operators act, and all others succeed."""
        play = self._play_of(attempt)
        if attempt.trigger is not None:
            return _ending_of_trigger(attempt.trigger, play)
        task = self._dags.task_of(attempt)
        ending = self._scripted_ending(play, attempt, now, is_sensor(task))
        if ending is None:
            takes = play.takes if isinstance(play, Scripted) else None
            error = None if attempt.resume is None else attempt.resume.error
            if decides(task):
                return Ending(takes=takes, acts=True)
            if error is None:
                ending = _SUCCEEDS if takes is None else succeeds(takes=takes)
            else:
                ending = fails(error, takes=takes)
        says = ending.outcome is Outcome.SUCCESS and is_check(task)
        if says or (is_sensor(task) and pokes(attempt, ending)):
            return dataclasses.replace(ending, acts=True)
        return ending

    def facts_of(self, attempt: Attempt) -> ScriptedTask:
        """See Book."""
        version, index = self._rows.runs[attempt.key.run].version_id, attempt.key.task_index
        found = self._facts.get((version, index))
        if found is None:
            spec = self._rows.versions[version].spec
            mappings = Graph(spec).mappings
            readers = mappings.readers if mappings is not None else ()
            dag = self._dags.cached(attempt.run)
            for number, one in enumerate(spec.tasks):
                task = None if dag is None else dag.task_dict.get(one.task_id)
                self._facts[version, number] = ScriptedTask.of(one, task, is_mapped_over=number in readers)
            found = self._facts[version, index]
        return found

    def asset_names(self) -> dict[str, str]:
        """See Book."""
        if self._names is None:
            self._names = names_by_uri(self._rows.living_specs())
        return self._names

    def _play_of(self, attempt: Attempt) -> Script | None:
        dag_id, task_id, plays = attempt.run.dag_id, attempt.task_id, self._plays
        for name in ((dag_id, task_id), (dag_id, "*"), ("*", task_id), ("*", "*")):
            if (play := plays.get(name)) is not None:
                return play
        return None

    def _scripted_ending(self, play: Script | None, attempt: Attempt, now: datetime, is_sensor: bool) -> Ending | None:
        if play is None:
            return None
        if isinstance(play, Scripted):
            failed = self._rows.failures[attempt.key[:3]]
            return play.ending(attempt, failed_before=failed, now=now, is_sensor=is_sensor)
        if isinstance(play, Ending):
            return play if play.outcome is not Outcome.DEFERRED or attempt.resume is None else None
        return play(attempt)


def _ending_of_trigger(deferral: Deferral, play: Script | None) -> Ending:
    """By the scripted deferral; for a task that begins in its trigger, by the task's script."""
    if (ending := trigger_ending(deferral)) is not None:
        return ending
    if isinstance(play, Scripted) and play.defers is not None:
        return Ending(Outcome.TRIGGERED, takes=play.defers)
    if isinstance(play, Ending) and play.deferral is not None:
        return trigger_ending(play.deferral) or _FIRES
    return _ACTS if decides_as_trigger(deferral) else _FIRES


_FIRES: Final = Ending(Outcome.TRIGGERED)
_ACTS: Final = Ending(Outcome.TRIGGERED, takes=NO_TIME, acts=True)
