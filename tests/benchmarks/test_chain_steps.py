"""Where a step of a chain spends its time: benchmarks/chain_steps.py."""

from __future__ import annotations

import pytest

from benchmarks.chain_steps import PARTS, Mark, chain_steps, way
from benchmarks.record import Record


def body(number: int, start: float, end: float) -> Record:
    return Record("d", f"t{number}", 1, 1, start, end)


def marks_from(at: float, step: float) -> list[Mark]:
    return [Mark(part.mark, at + step * (number + 1)) for number, part in enumerate(PARTS[:-1])]


def test_each_part_ends_with_its_mark() -> None:
    records = [body(0, 0.0, 1.0), body(1, 3.0, 4.0), body(2, 6.0, 7.0)]
    marks = [*marks_from(1.0, 0.125), *marks_from(4.0, 0.125)]

    steps = way(records, marks)

    assert [sum(parts) for parts in steps] == [2.0, 2.0]
    assert steps[0] == pytest.approx([0.125] * (len(PARTS) - 1) + [2.0 - 0.125 * (len(PARTS) - 1)])


def test_a_step_that_lacks_a_mark_is_left_out() -> None:
    records = [body(0, 0.0, 1.0), body(1, 3.0, 4.0), body(2, 6.0, 7.0)]
    marks = [*marks_from(1.0, 0.125)[:-1], *marks_from(4.0, 0.125)]

    assert len(way(records, marks)) == 1


def test_a_mark_before_the_part_it_follows_does_not_count() -> None:
    """A pass may run twice before the report arrives."""
    records = [body(0, 0.0, 1.0), body(1, 3.0, 4.0)]
    marks = [Mark("decide", 1.0625), Mark("decided", 1.07), *marks_from(1.0, 0.125)]

    assert way(records, sorted(marks, key=lambda mark: mark.at)) == [
        pytest.approx(way(records, marks_from(1.0, 0.125))[0])
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("on_test_server")
async def test_a_small_chain_has_a_figure_for_each_part_of_both_executors() -> None:
    finding = await chain_steps(5, 60.0, lead=1.0)

    assert [problem for problem in finding.problems if "--lead" not in problem] == []  # a slow machine's
    told = {figure.what: figure.value for figure in finding.figures}
    for executor in ("inline", "local"):
        assert all(told[f"{executor}: {part.what}"] > 0 for part in PARTS)
        assert told[f"{executor}: steps with all marks"] > 0
