"""What the rows of an Airflow become here: rows in, plan out. Pure.

A DAG is unpaused here only if nothing else runs it any more: it was unpaused in Airflow and Airflow's scheduler has
stopped, or the user says so. A DAG with unfinished runs in Airflow is left as it is, since they would run twice.
Does not live here: storing the plan (applying.py), which run of the timetable the last one is (core/creation).
Source: docs/migration.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeVar

from aiosched.core.graph.spec import DEFAULT_POOL
from aiosched.core.requests.requests import ContinueSchedule
from aiosched.core.values.connections import ConnectionValue
from aiosched.core.values.states import RUN_FINISHED, RunState
from aiosched.errors import Refused
from aiosched.migration.rows import AirflowDag, AirflowPool, AirflowRows
from aiosched.migration.values import AirflowKeys, connection_value, variable_text

T = TypeVar("T")

KEPT_WHY: Final = "it is different here: --overwrite replaces it"


class StepOutcome(StrEnum):
    """What a step does, or has done."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    KEPT = "kept"  # it is different here, and --overwrite was not given
    SENT = "sent"  # a request that a scheduler applies when one runs
    LEFT = "left"  # not possible, or not now


@dataclass(frozen=True, slots=True)
class MigrationStep:
    """One line of the summary: `kind` is variable, connection, pool, dag or row; `why` explains what was not done."""

    kind: str
    name: str
    outcome: StepOutcome
    why: str | None = None


@dataclass(frozen=True, slots=True)
class ImportedVariable:
    """A variable to store."""

    key: str
    value: str
    description: str | None


StoredValue = ImportedVariable | ConnectionValue | AirflowPool


@dataclass(frozen=True, slots=True)
class ImportedDag:
    """A DAG to go on with. `after` is what its schedule goes on after, None: it has not run there.

    `is_paused` is for a DAG that is new here; `unpause` unpauses any. `why` says why it stays paused although it is
    unpaused in Airflow, or why it is left as it is (`is_left`).
    """

    dag_id: str
    is_paused: bool
    unpause: bool = False
    after: ContinueSchedule | None = None
    is_left: bool = False
    why: str | None = None


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """What to store. `left` are the rows that cannot come over, with the reason."""

    variables: tuple[ImportedVariable, ...]
    connections: tuple[ConnectionValue, ...]
    pools: tuple[AirflowPool, ...]
    dags: tuple[ImportedDag, ...]
    left: tuple[MigrationStep, ...]

    @property
    def values(self) -> dict[tuple[str, str], Any]:
        """What DAG files that look up variables and connections at their top get, by kind and name."""
        texts = {("variable", one.key): one.value for one in self.variables}
        return texts | {("connection", one.conn_id): one.as_fields() for one in self.connections}


@dataclass(frozen=True, slots=True)
class StoredHere:
    """What this database has already. `default_slots` is the size of the default pool that nobody has changed."""

    variables: Mapping[str, tuple[str, str | None]]
    connections: Mapping[str, ConnectionValue]
    pools: Mapping[str, AirflowPool]
    default_slots: int = 128


def plan_migration(
    rows: AirflowRows,
    keys: AirflowKeys,
    *,
    here: Collection[str],
    unpause: bool = False,
    wanted: Collection[str] = (),
    held_back: Collection[str] = (),
) -> MigrationPlan:
    """The plan for `rows`. `here` are the DAG ids that the files of the folder define.

    DAGs of `held_back` stay paused if they have not run: a guess would catch up many runs, see first_sight.py.

    With `unpause` every DAG is unpaused here, whatever it is in Airflow. `wanted` are the DAGs that the user named.
    """
    left = [MigrationStep("row", what, StepOutcome.LEFT, why) for what, why in rows.problems]
    variables: list[ImportedVariable] = []
    for variable in rows.variables:
        try:
            variables.append(ImportedVariable(variable.key, variable_text(variable, keys), variable.description))
        except Refused as error:
            left.append(MigrationStep("variable", variable.key, StepOutcome.LEFT, str(error)))
    connections: list[ConnectionValue] = []
    for row in rows.connections:
        try:
            connections.append(connection_value(row, keys))
        except Refused as error:
            left.append(MigrationStep("connection", row.conn_id, StepOutcome.LEFT, str(error)))
    dags = []
    for dag in rows.dags:
        if dag.dag_id in here:
            is_held = dag.dag_id in held_back and dag.last is None
            dags.append(_plan_dag(dag, is_alive=rows.scheduler_alive, unpause=unpause, is_held_back=is_held))
        elif dag.last is not None:
            left.append(MigrationStep("dag", dag.dag_id, StepOutcome.LEFT, "no file of the folder defines it"))
    unknown = sorted(set(wanted) - {dag.dag_id for dag in rows.dags})
    left += [MigrationStep("dag", dag_id, StepOutcome.LEFT, "Airflow has no such DAG") for dag_id in unknown]
    return MigrationPlan(tuple(variables), tuple(connections), rows.pools, tuple(dags), tuple(left))


def _plan_dag(dag: AirflowDag, *, is_alive: bool, unpause: bool, is_held_back: bool) -> ImportedDag:
    unfinished = dag.unfinished or (dag.last is not None and dag.last.state not in RUN_FINISHED)
    if unfinished:
        number = max(dag.unfinished, 1)
        runs = "1 run" if number == 1 else f"{number} runs"
        return ImportedDag(
            dag.dag_id, is_paused=True, is_left=True,
            why=f"{runs} of it in Airflow are queued or running: let them end there, then repeat this",
        )  # fmt: skip
    why = None
    is_paused = dag.is_paused
    if unpause:
        is_paused = False
    elif not is_paused and is_held_back:
        is_paused = True
        why = "stays paused: many runs would be caught up if it is one of Airflow 2 (core.airflow_defaults)"
    elif not is_paused and is_alive:
        is_paused = True
        why = (
            "stays paused here, because Airflow's scheduler runs it: pause it there, "
            f"then repeat this with --dag {dag.dag_id} --unpause"
        )
    after = None
    if dag.last is not None:
        after = ContinueSchedule(
            logical_date=dag.last.logical_date,
            state=RunState(dag.last.state),
            run_after=dag.last.run_after,
            start_date=dag.last.start_date,
            end_date=dag.last.end_date,
            tasks=dict(dag.last.tasks),
            source=f"Airflow's run {dag.last.run_id}",
        )
    return ImportedDag(dag.dag_id, is_paused, unpause, after, why=why)


# ---- compared with what is here ----


def variable_outcome(new: ImportedVariable, stored: StoredHere, *, overwrite: bool) -> StepOutcome:
    """What storing a variable does."""
    old = stored.variables.get(new.key)
    return _outcome(
        old, (new.value, new.description if new.description is not None else (old or ("", None))[1]), overwrite
    )


def connection_outcome(new: ConnectionValue, stored: StoredHere, *, overwrite: bool) -> StepOutcome:
    """What storing a connection does."""
    return _outcome(stored.connections.get(new.conn_id), new, overwrite)


def pool_outcome(new: AirflowPool, stored: StoredHere, *, overwrite: bool) -> StepOutcome:
    """What storing a pool does. The default pool, which exists from the beginning, is taken over while it is as new."""
    old = stored.pools.get(new.name)
    untouched = old is not None and new.name == DEFAULT_POOL and old.slots == stored.default_slots
    same = old is not None and (old.slots, old.include_deferred) == (new.slots, new.include_deferred)
    if old is not None and same:
        return StepOutcome.UNCHANGED
    return _outcome(old, new, overwrite or untouched)


def _outcome(old: T | None, new: T, overwrite: bool) -> StepOutcome:
    if old is None:
        return StepOutcome.CREATED
    if old == new:
        return StepOutcome.UNCHANGED
    return StepOutcome.CHANGED if overwrite else StepOutcome.KEPT


def value_steps(plan: MigrationPlan, stored: StoredHere, *, overwrite: bool) -> list[tuple[MigrationStep, StoredValue]]:
    """What storing each variable, connection and pool does, and what is to be stored."""
    found: list[tuple[str, str, StepOutcome, StoredValue]] = [
        *(("variable", one.key, variable_outcome(one, stored, overwrite=overwrite), one) for one in plan.variables),
        *(("connection", one.conn_id, connection_outcome(one, stored, overwrite=overwrite), one)
          for one in plan.connections),
        *(("pool", one.name, pool_outcome(one, stored, overwrite=overwrite), one) for one in plan.pools),
    ]  # fmt: skip
    return [
        (MigrationStep(kind, name, outcome, KEPT_WHY if outcome is StepOutcome.KEPT else None), one)
        for kind, name, outcome, one in found
    ]


def preview(plan: MigrationPlan, stored: StoredHere, *, overwrite: bool) -> list[MigrationStep]:
    """What applying the plan would do, as far as it can be told without the owners of the DAGs."""
    values = value_steps(plan, stored, overwrite=overwrite)
    return [*(step for step, _ in values), *map(dag_step, plan.dags), *plan.left]


def dag_step(dag: ImportedDag) -> MigrationStep:
    """The line of a DAG before it is asked for."""
    if dag.is_left:
        return MigrationStep("dag", dag.dag_id, StepOutcome.LEFT, dag.why)
    after = "has not run on its schedule" if dag.after is None else f"goes on after {dag.after.source}"
    state = "paused" if dag.is_paused else "unpaused"
    return MigrationStep("dag", dag.dag_id, StepOutcome.CHANGED, "; ".join(filter(None, (after, state, dag.why))))


def counted(steps: Iterable[MigrationStep]) -> dict[str, dict[str, int]]:
    """How many of each kind had which outcome."""
    found: dict[str, dict[str, int]] = {}
    for step in steps:
        of_kind = found.setdefault(step.kind, {})
        of_kind[step.outcome] = of_kind.get(step.outcome, 0) + 1
    return found


def nothing_done(steps: Sequence[MigrationStep]) -> bool:
    """Whether no step has changed anything."""
    return not any(step.outcome in (StepOutcome.CREATED, StepOutcome.CHANGED, StepOutcome.SENT) for step in steps)
