"""What the rows of an Airflow become: decided without a database. docs/migration.md."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from aiosched.core.values.connections import ConnectionValue
from aiosched.core.values.states import RunState
from aiosched.migration.planning import (
    ImportedVariable,
    StepOutcome,
    StoredHere,
    connection_outcome,
    plan_migration,
    pool_outcome,
    variable_outcome,
)
from aiosched.migration.rows import AirflowConnection, AirflowDag, AirflowPool, AirflowRows, AirflowRun
from aiosched.migration.values import AirflowKeys

LAST = AirflowRun("scheduled__x", datetime(2026, 1, 1, tzinfo=UTC), "success", tasks={"a": "success"})
NO_KEYS = AirflowKeys([])


def planned(dag: AirflowDag, *, alive: bool = False, unpause: bool = False) -> Any:
    rows = AirflowRows(dags=(dag,), scheduler_alive=alive)
    (found,) = plan_migration(rows, NO_KEYS, here={"d"}, unpause=unpause).dags
    return found


@pytest.mark.parametrize(
    ("paused", "alive", "unpause", "expected"),
    [
        (True, False, False, True),
        (False, False, False, False),
        (False, True, False, True),  # Airflow would run it, too
        (True, True, True, False),
        (False, True, True, False),
    ],
)
def test_a_dag_is_unpaused_only_if_airflow_does_not_run_it_or_on_request(
    paused: bool, alive: bool, unpause: bool, expected: bool
) -> None:
    found = planned(AirflowDag("d", paused, LAST), alive=alive, unpause=unpause)

    assert found.is_paused is expected
    assert (found.why is not None) is (alive and not paused and not unpause)


@pytest.mark.parametrize(
    ("last", "unpause", "is_paused"), [(None, False, True), (None, True, False), (LAST, False, False)]
)
def test_a_dag_that_a_guess_would_let_catch_up_stays_paused_until_somebody_says_so(
    last: AirflowRun | None, unpause: bool, is_paused: bool
) -> None:
    rows = AirflowRows(dags=(AirflowDag("d", False, last),))

    (found,) = plan_migration(rows, NO_KEYS, here={"d"}, unpause=unpause, held_back={"d"}).dags

    assert found.is_paused is is_paused
    assert ("core.airflow_defaults" in (found.why or "")) is is_paused


@pytest.mark.parametrize("state", ["queued", "running"])
def test_a_dag_with_unfinished_runs_is_left(state: str) -> None:
    last = AirflowRun("r", LAST.logical_date, state)

    assert planned(AirflowDag("d", False, last), unpause=True).is_left
    assert planned(AirflowDag("d", False, LAST, unfinished=2)).why.startswith("2 runs of it in Airflow")


def test_the_last_run_is_what_the_schedule_goes_on_after() -> None:
    after = planned(AirflowDag("d", True, LAST)).after

    assert (after.logical_date, after.state, after.tasks) == (LAST.logical_date, RunState.SUCCESS, {"a": "success"})
    assert planned(AirflowDag("d", True)).after is None


def test_a_dag_that_no_file_defines_is_named_if_it_has_run() -> None:
    rows = AirflowRows(dags=(AirflowDag("gone", False, LAST), AirflowDag("never", False)))

    plan = plan_migration(rows, NO_KEYS, here={"d"})

    assert [(step.name, step.outcome) for step in plan.left] == [("gone", StepOutcome.LEFT)]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (AirflowConnection("c", "http", extra="not json"), "its extra is not a JSON object"),
        (AirflowConnection("c", "http", port=70000), "a port is 1 to 65535"),
        (AirflowConnection("a b", "http"), "cannot be the name of a connection"),
        (AirflowConnection("c", "http", password="gAAA", is_encrypted=True), "no Fernet key of Airflow was given"),
    ],
)
def test_a_connection_that_cannot_be_stored_is_named_with_the_reason(row: AirflowConnection, why: str) -> None:
    plan = plan_migration(AirflowRows(connections=(row, AirflowConnection("good", "http"))), NO_KEYS, here=())

    assert [value.conn_id for value in plan.connections] == ["good"]
    assert why in (plan.left[0].why or "")


def test_a_dag_that_airflow_does_not_have_is_named() -> None:
    plan = plan_migration(AirflowRows(), NO_KEYS, here={"d"}, wanted=["d"])

    assert [(step.name, step.why) for step in plan.left] == [("d", "Airflow has no such DAG")]


HERE = StoredHere(
    variables={"x": ("1", "what for")},
    connections={"c": ConnectionValue(conn_id="c", conn_type="http")},
    pools={"default_pool": AirflowPool("default_pool", 128), "p": AirflowPool("p", 2)},
)


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (variable_outcome(ImportedVariable("x", "1", None), HERE, overwrite=False), StepOutcome.UNCHANGED),
        (variable_outcome(ImportedVariable("x", "2", None), HERE, overwrite=False), StepOutcome.KEPT),
        (variable_outcome(ImportedVariable("x", "2", None), HERE, overwrite=True), StepOutcome.CHANGED),
        (variable_outcome(ImportedVariable("y", "2", None), HERE, overwrite=False), StepOutcome.CREATED),
        (connection_outcome(ConnectionValue(conn_id="c", conn_type="ssh"), HERE, overwrite=False), StepOutcome.KEPT),
        (pool_outcome(AirflowPool("p", 2), HERE, overwrite=False), StepOutcome.UNCHANGED),
        (pool_outcome(AirflowPool("p", 3), HERE, overwrite=False), StepOutcome.KEPT),
        (
            pool_outcome(AirflowPool("default_pool", 64), HERE, overwrite=False),
            StepOutcome.CHANGED,
        ),  # nobody changed it
    ],
)
def test_what_is_different_here_is_kept_unless_it_may_be_overwritten(
    outcome: StepOutcome, expected: StepOutcome
) -> None:
    assert outcome is expected
