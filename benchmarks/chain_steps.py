"""Where a step of a chain spends its time: the way from the end of one body to the start of the next, in parts.

Functions of the way are wrapped while a chain runs, so that each notes the instant at which it is called or has
returned. The instants are readings of the machine's monotonic clock, as those of the bodies are.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from statistics import median
from typing import Any, Final, NamedTuple
from unittest import mock

from aiosched.db.statements import journal
from aiosched.executors.inline.executor import InlineExecutor
from aiosched.executors.local.executor import LocalExecutor
from aiosched.scheduler.attempts.attempts import Attempts
from aiosched.scheduler.loops import enqueueing, evaluation
from benchmarks import measure, record
from benchmarks.figures import Figure, Finding
from benchmarks.record import Record
from benchmarks.run import Executor, run_on
from benchmarks.shapes import CallableKind, Shape, linear
from benchmarks.stage import stage

BODY_ENDS: Final = "body ends"
BODY_BEGINS: Final = "body begins"


class Part(NamedTuple):
    """A part of the way: it ends with the first mark of this name after the part before."""

    mark: str
    what: str


PARTS: Final = (
    Part("receive", "the report: from the body's end to the scheduler"),
    Part("decide", "wake-up of the evaluation"),
    Part("decided", "applying the report, decision"),
    Part("pools", "wake-up of the critical section"),
    Part("claimed", "room, choice, collecting the changes"),
    Part("write", "the journal's steps before the statement"),
    Part("sent", "choosing it"),
    Part("stored", "its parameters, statement and commit: driver, PostgreSQL, wake-up"),
    Part("submit", "from the commit to the executor"),
    Part(BODY_BEGINS, "the hand-over: from the executor to the body"),
)


class Mark(NamedTuple):
    name: str
    at: float  # seconds


def way(records: Sequence[Record], marks: Sequence[Mark]) -> list[list[float]]:
    """The seconds of each part, a list for each step whose marks are complete. Pure.

    `records` are the bodies of a chain, `marks` what was noted meanwhile; both in the order of time.
    """
    steps = []
    for ended, began in pairwise(records):
        noted = [mark for mark in marks if ended.end <= mark.at <= began.start]
        noted.append(Mark(BODY_BEGINS, began.start))
        at, parts = ended.end, list[float]()
        for part in PARTS:
            found = next((mark.at for mark in noted if mark.name == part.mark and mark.at >= at), None)
            if found is None:
                break
            parts.append(found - at)
            at = found
        else:
            steps.append(parts)
    return steps


def _noting(call: Callable[..., Any], marks: list[Mark], before: str | None, after: str | None = None) -> Any:
    """`call`, which notes when it is called and when it has returned."""

    @functools.wraps(call)
    def noted(*args: Any, **options: Any) -> Any:
        if before is not None:
            marks.append(Mark(before, time.monotonic()))
        result = call(*args, **options)
        if after is not None:
            marks.append(Mark(after, time.monotonic()))
        return result

    return noted


def _noting_async(
    call: Callable[..., Awaitable[Any]], marks: list[Mark], before: str, after: str | None
) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(call)
    async def noted(*args: Any, **options: Any) -> Any:
        marks.append(Mark(before, time.monotonic()))
        result = await call(*args, **options)
        if after is not None:
            marks.append(Mark(after, time.monotonic()))
        return result

    return noted


@contextmanager
def _noted(marks: list[Mark]) -> Iterator[None]:
    executors = [mock.patch.object(kind, "submit", _noting(kind.submit, marks, "submit")) for kind in _EXECUTORS]
    with (
        mock.patch.object(Attempts, "receive", _noting(Attempts.receive, marks, "receive")),
        mock.patch.object(evaluation, "decide", _noting(evaluation.decide, marks, "decide", "decided")),
        mock.patch.object(enqueueing, "_decide", _noting_async(enqueueing._decide, marks, "pools", "claimed")),
        mock.patch.object(journal, "write", _noting_async(journal.write, marks, "write", "stored")),
        mock.patch.object(journal, "write_few", _noting(journal.write_few, marks, None, "sent")),
        executors[0],
        executors[1],
    ):
        yield


_EXECUTORS: Final = (InlineExecutor, LocalExecutor)


def _chain(tasks: int) -> Shape:
    return Shape(f"chain-{tasks}", 1, tasks, linear(tasks))


async def chain_steps(tasks: int, _: float, *, lead: float | None = None) -> Finding:
    """Chains of so many tasks, inline with coroutines and local with plain functions: medians of each part."""
    figures, problems, commits = list[Figure](), list[str](), list[float]()
    kinds: tuple[tuple[Executor, CallableKind], ...] = (("inline", "async"), ("local", "sync"))
    for executor, kind in kinds:
        marks = list[Mark]()
        async with stage() as at:
            with _noted(marks):
                result = await run_on(at, _chain(tasks), executor=executor, kind=kind, lead=lead)
            records = record.read(at.folders.records)
        problems += result.problems
        commits.append(result.commit_p50)
        steps = way(sorted(records, key=lambda one: one.start), marks)
        if not steps:
            problems.append(f"{executor}: no step has all marks")
            continue
        total = median(map(sum, steps))
        for part, seconds in zip(PARTS, zip(*steps, strict=True), strict=True):
            figures.append(Figure(f"{executor}: {part.what}", 1e6 * median(seconds), "us"))
        figures.append(Figure(f"{executor}: all of it, p50", 1e6 * total, "us"))
        figures.append(Figure(f"{executor}: all of it, in commits", total / result.commit_p50, ""))
        figures.append(Figure(f"{executor}: steps with all marks", len(steps), ""))
    figures.append(Figure("a durable commit of one row", 1e6 * median(commits), "us"))
    about = f"a chain of {tasks} tasks, medians of each part of the way from one body to the next"
    return Finding("chain-steps", about, measure.machine(), figures, problems)
