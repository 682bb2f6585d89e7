"""The verification that every benchmark ends with must find each kind of mistake."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.record import Record, parse
from benchmarks.shapes import Shape, linear
from benchmarks.verify import Row, verify

SHAPE = Shape("pair-2x2", 2, 2, linear(2))


def records() -> list[Record]:
    """Both tasks of both DAGs, in order."""
    return [
        Record(dag_id, task_id, 1, 7, start, start + 0.5)
        for dag_id in SHAPE.dag_ids()
        for start, task_id in enumerate(SHAPE.task_ids())
    ]


def rows() -> list[Row]:
    return [Row(dag_id, task_id, "success", 1) for dag_id in SHAPE.dag_ids() for task_id in SHAPE.task_ids()]


def test_a_faultless_run_has_no_problems() -> None:
    assert verify(SHAPE, records(), rows()) == []


def test_a_task_may_start_in_the_instant_in_which_its_upstream_ended() -> None:
    first, second, *others = records()

    assert verify(SHAPE, [first, second._replace(start=first.end), *others], rows()) == []


def test_an_attempt_that_ran_twice_is_found() -> None:
    twice = [*records(), records()[0]._replace(pid=8)]

    assert verify(SHAPE, twice, rows()) == ["1 attempts ran more than once: pair-2x2.00000 t0000 1"]


def test_a_second_try_is_found() -> None:
    again = [*records(), records()[0]._replace(try_number=2)]

    assert verify(SHAPE, again, rows()) == ["1 tasks needed more than one try: pair-2x2.00000 t0000"]


def test_a_task_that_never_ran_is_found() -> None:
    assert verify(SHAPE, records()[:-1], rows()) == ["1 tasks never ran: pair-2x2.00001 t0001"]


def test_a_task_that_nobody_asked_for_is_found() -> None:
    stray = records()[0]._replace(dag_id="other")

    assert verify(SHAPE, [*records(), stray], rows()) == ["1 tasks ran that were not requested: other t0000"]


def test_a_task_that_started_before_its_upstream_ended_is_found() -> None:
    first, second, *others = records()

    problems = verify(SHAPE, [first, second._replace(start=first.end - 0.001), *others], rows())

    assert problems == ["1 tasks started before an upstream had ended: pair-2x2.00000 t0000 t0001"]


@pytest.mark.parametrize(("state", "try_number"), [("failed", 1), ("running", 1), ("success", 2)])
def test_a_row_that_is_not_a_success_of_the_first_try_is_found(state: str, try_number: int) -> None:
    row, *others = rows()

    problems = verify(SHAPE, records(), [row._replace(state=state, try_number=try_number), *others])

    wanted = "1 task instances are not a success of the first try in the database"
    assert problems == [f"{wanted}: pair-2x2.00000 t0000 {state} {try_number}"]


def test_a_missing_row_is_found() -> None:
    assert verify(SHAPE, records(), rows()[1:]) == [
        "1 task instances are missing in the database: pair-2x2.00000 t0000"
    ]


def test_many_cases_of_one_problem_are_counted_and_a_few_named() -> None:
    wide = replace(SHAPE, dags=10)

    [never_ran, missing] = verify(wide, [], [])

    assert never_ran.startswith("20 tasks never ran: pair-2x2.00000 t0000;")
    assert never_ran.endswith("and 15 more")
    assert missing.startswith("20 task instances are missing")


def test_records_are_read_as_they_were_written() -> None:
    assert parse(["chain-200.00000 t0001 1 42 10.25 10.5"]) == [Record("chain-200.00000", "t0001", 1, 42, 10.25, 10.5)]


def test_half_a_line_is_refused() -> None:
    with pytest.raises(ValueError, match="not enough values"):
        parse(["chain-200.00000 t0001 1"])
