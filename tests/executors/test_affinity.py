"""Which idle worker gets which attempt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.values.messages import Attempt, AttemptKey, RunInfo
from aiosched.executors.local.affinity import (
    LONGEST_LINE,
    LOOK_AHEAD,
    PATIENCE,
    FileKey,
    FileTimes,
    behind,
    choose_for_import,
    match,
)

NOW = 1000.0
FILE: FileKey = ("a", None, None, None)


@dataclass
class Worker:
    files: set[FileKey] = field(default_factory=set)
    attempts: Sequence[None] = ()
    head_since: float = NOW
    due: dict[FileKey, float] = field(default_factory=dict)
    team: str | None = None


def attempt(file: str, *, team: str | None = None) -> Attempt:
    run = RunInfo(
        key=1, dag_id="d", run_id="r", run_type="manual", run_after=datetime(2026, 1, 1, tzinfo=UTC), file=file,
        team=team,
    )  # fmt: skip
    return Attempt(key=AttemptKey(1, 0, -1, 1), run=run, task_id="t", is_async=False, max_tries=0)


def knows(*files: str, line: int = 0, since: float = NOW) -> Worker:
    """A worker that has loaded these files and has so many attempts, the first since then."""
    return Worker({(file, None, None, None) for file in files}, [None] * line, since)


def times(run: float, imported: float, file: FileKey = FILE) -> FileTimes:
    known = FileTimes()
    known.observe(file, run, imported)
    return known


def test_an_attempt_goes_to_a_worker_that_has_loaded_its_file() -> None:
    assert match([knows("b"), knows("a"), knows("c")], [attempt("a")], 0) == (1, 0)


def test_of_several_the_worker_that_was_used_last_is_taken() -> None:
    assert match([knows("a"), knows("a"), knows()], [attempt("a")], 0) == (1, 0)


def test_a_worker_takes_an_attempt_near_the_front_that_it_has_loaded() -> None:
    assert match([knows("c")], [attempt("a"), attempt("b"), attempt("c")], 0) == (0, 2)


def test_without_a_match_the_first_goes_to_the_worker_used_last() -> None:
    assert match([knows(), knows()], [attempt("a"), attempt("b")], 0) == (1, 0)


def test_a_worker_takes_attempts_of_its_team_only() -> None:
    of_nobody, of_blue = knows("a"), replace(knows("a"), team="blue")
    backlog = [attempt("a", team="blue"), attempt("a", team="red"), attempt("b", team="blue")]

    assert match([of_nobody, of_blue, of_nobody], backlog, 0) == (1, 0)
    assert match([of_nobody], backlog, 0) is None
    assert match([of_nobody, of_blue], backlog[1:], 0) is None
    assert behind([replace(of_nobody, attempts=[None])], backlog[0], times(0.001, 0.1), free=False, now=NOW) is None


def test_nobody_looks_far_ahead() -> None:
    backlog = [*(attempt(f"other {n}") for n in range(LOOK_AHEAD)), attempt("a")]

    assert match([knows("a")], backlog, 0) == (0, 0)


def test_the_first_in_line_is_not_passed_over_for_ever() -> None:
    backlog = [attempt("a"), attempt("b")]

    assert match([knows("b")], backlog, LOOK_AHEAD - 1) == (0, 1)
    assert match([knows("b")], backlog, LOOK_AHEAD) == (0, 0)


def test_an_attempt_waits_in_the_shortest_line_of_those_that_know_its_file() -> None:
    long, short, stranger = knows("a", line=5), knows("a", "b", line=2), knows("b", line=1)

    assert behind([long, short, stranger], attempt("a"), times(0.001, 0.1), free=True, now=NOW) is short
    assert behind([long, short, stranger], attempt("a"), times(0.001, 0.1), free=False, now=NOW) is short


def test_nobody_waits_where_an_idle_worker_knows_the_file() -> None:
    assert behind([knows("a", line=1), knows("a")], attempt("a"), times(0.001, 0.1), free=True, now=NOW) is None


@pytest.mark.parametrize(("free", "waits"), [(True, False), (False, True)])
def test_only_while_no_worker_is_free_an_attempt_waits_where_its_file_is_unknown(free: bool, waits: bool) -> None:
    busy = knows("b", line=1)

    assert (behind([busy], attempt("a"), times(0.001, 0.1), free=free, now=NOW) is busy) is waits


@pytest.mark.parametrize(
    ("run", "imported", "line", "waits"),
    [
        (0.001, 0.01, 20, True),  # twenty attempts take as long as two imports
        (0.001, 0.01, 21, False),
        (10.0, 0.01, 1, False),
        (0.9, 1.0, 2, True),
        (0.0, 1.0, LONGEST_LINE - 1, True),
        (0.0, 1.0, LONGEST_LINE, False),
    ],
)
def test_a_line_is_worth_waiting_in_for_as_long_as_two_imports(
    run: float, imported: float, line: int, waits: bool
) -> None:
    worker = knows("a", line=line)

    assert (behind([worker], attempt("a"), times(run, imported), free=True, now=NOW) is worker) is waits


def test_nobody_waits_behind_what_has_run_for_long() -> None:
    worker = knows("a", line=1, since=NOW - 2 * PATIENCE)

    assert behind([worker], attempt("a"), times(0.001, 0.01), free=True, now=NOW) is None
    assert behind([worker], attempt("a"), times(0.001, 0.11), free=True, now=NOW) is worker  # it may be importing


def test_as_long_as_nothing_is_known_nobody_waits_in_lines() -> None:
    assert behind([knows("a", line=1)], attempt("a"), FileTimes(), free=True, now=NOW) is None


def test_of_an_unknown_file_is_expected_what_others_take() -> None:
    known = times(0.001, 0.03, ("other", None, None, None))

    assert (known.run(FILE), known.imports(FILE), known.patience(FILE)) == (0.001, 0.06, 0.06)


def test_times_follow_what_is_seen_and_one_long_attempt_does_not_count_for_ever() -> None:
    known = times(0.0, 0.01)
    for _ in range(40):
        known.observe(FILE, 0.02, 0.0)
    assert 0.019 < known.run(FILE) < 0.021

    known.observe(FILE, 36_000.0, 0.0)
    for _ in range(40):
        known.observe(FILE, 0.02, 0.0)

    assert known.run(FILE) < 0.03
    assert known.imports(FILE) == 0.02


KEYS = st.tuples(st.sampled_from(["a", "b"]), st.just("h"), st.sampled_from([None, "v1", "v2"]), st.none())


DUE = st.dictionaries(KEYS, st.floats(NOW - 10, NOW + 10), max_size=2)


TEAMS = st.sampled_from([None, "a"])


@given(
    st.lists(st.builds(Worker, st.sets(KEYS), due=DUE, team=TEAMS), max_size=5), KEYS, st.integers(1, 9), st.booleans()
)
def test_a_file_is_imported_beside_few_others_and_never_beside_those_of_another_version(
    idle: list[Worker], file: FileKey, files: int, spawns: bool
) -> None:
    place = choose_for_import(idle, file, files=files, spawns=spawns, now=NOW, until=NOW + 2)

    fitting = [
        worker
        for worker in idle
        if worker.team is None
        and {known[2] for known in worker.files} <= {file[2]}
        and not any(NOW - 5 < due < NOW + 2 for due in worker.due.values())
    ]
    if place is None:
        assert not fitting or (spawns and files > len(idle) and all(worker.files for worker in fitting))
    else:
        assert idle[place] in fitting
        assert len(idle[place].files) == min(len(worker.files) for worker in fitting)


def test_an_attempt_of_a_file_that_is_slow_to_import_is_expected_to_take_a_part_of_that() -> None:
    known = FileTimes()
    assert known.run(FILE) == 1.0

    known.observe_import(FILE, 0.8)

    assert known.run(FILE) == pytest.approx(0.1)
    assert known.run(("b", None, None, None)) == 1.0
    known.observe(("b", None, None, None), 0.3, 0)
    assert known.run(FILE) == pytest.approx(0.3)


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), float("-inf"), -1.0])
def test_times_that_are_none_are_not_learned(seconds: float) -> None:
    known = times(0.001, 0.03)

    known.observe(FILE, seconds, seconds)
    known.observe_import(FILE, seconds)

    assert known.imports(FILE) == 0.06
    assert known.run(FILE) in (0.001, pytest.approx(0.001 + (1 - 0.001) / 8))  # an infinite one counts as long
