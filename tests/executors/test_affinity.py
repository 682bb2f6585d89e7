"""Which idle worker gets which attempt."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from aiosched.core.messages import Attempt, AttemptKey, RunInfo
from aiosched.executors.affinity import LOOK_AHEAD, FileKey, match


@dataclass
class Worker:
    files: set[FileKey] = field(default_factory=set)


def attempt(file: str) -> Attempt:
    run = RunInfo(
        key=1, dag_id="d", run_id="r", run_type="manual", run_after=datetime(2026, 1, 1, tzinfo=UTC), file=file
    )
    return Attempt(key=AttemptKey(1, 0, -1, 1), run=run, task_id="t", is_async=False, max_tries=0)


def knows(*files: str) -> Worker:
    return Worker({(file, None) for file in files})


def test_an_attempt_goes_to_a_worker_that_has_loaded_its_file() -> None:
    assert match([knows("b"), knows("a"), knows("c")], [attempt("a")], 0) == (1, 0)


def test_of_several_the_worker_that_was_used_last_is_taken() -> None:
    assert match([knows("a"), knows("a"), knows()], [attempt("a")], 0) == (1, 0)


def test_a_worker_takes_an_attempt_near_the_front_that_it_has_loaded() -> None:
    assert match([knows("c")], [attempt("a"), attempt("b"), attempt("c")], 0) == (0, 2)


def test_without_a_match_the_first_goes_to_the_worker_used_last() -> None:
    assert match([knows(), knows()], [attempt("a"), attempt("b")], 0) == (1, 0)


def test_nobody_looks_far_ahead() -> None:
    backlog = [*(attempt(f"other {n}") for n in range(LOOK_AHEAD)), attempt("a")]

    assert match([knows("a")], backlog, 0) == (0, 0)


def test_the_first_in_line_is_not_passed_over_for_ever() -> None:
    backlog = [attempt("a"), attempt("b")]

    assert match([knows("b")], backlog, LOOK_AHEAD - 1) == (0, 1)
    assert match([knows("b")], backlog, LOOK_AHEAD) == (0, 0)
