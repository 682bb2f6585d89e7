"""Errors that nobody foresaw: for a while a function of `core` raises, whenever it is about one DAG.

But it takes a report before that has failed so often that it is set aside: the result of an attempt would be lost then,
and how runs end would depend on errors. Source: decision 30.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from types import FunctionType
from typing import Any, Final, NamedTuple, cast

from aiosched.core.creation import next_run
from aiosched.core.graph import new_instances
from aiosched.core.graph.graph import Graph
from aiosched.core.graph.spec import DagSpec
from aiosched.core.run import callbacks
from aiosched.core.run.board import Board
from aiosched.core.values.messages import AttemptKey, Outcome, Report
from aiosched.scheduler.failures.remembered import MOST_FAILURES
from tests.one_dag import failing

FIRST, LAST, LONGEST = 3.0, 40.0, 25.0  # when they may begin, and how long they last
BREAKABLE: Final[Sequence[Any]] = (
    Board.start, Board.evaluate, Board.evaluate, Board.apply, Board.apply, Board.grant, Board.resume, Board.defer,
    Board.wake, Board.lose, Board.time_out_trigger, callbacks.dag_callback, new_instances.new_places,
    next_run.next_scheduled_run,
)  # fmt: skip


class Break(NamedTuple):
    """What raises, and when; `function` counts those of BREAKABLE."""

    at: float
    until: float
    dag_id: str
    function: int


def make_breaks(random: Random, dag_ids: Sequence[str]) -> tuple[Break, ...]:
    """Those of a plan: few plans have one."""
    if random.random() < 0.65:
        return ()
    at = random.uniform(FIRST, LAST)
    until = at + random.uniform(0.2, LONGEST)
    return (Break(at, until, random.choice(dag_ids), random.randrange(len(BREAKABLE))),)


@contextlib.contextmanager
def breaking(breaks: Sequence[Break], now: Callable[[], float], on_error: Callable[[], None]) -> Iterator[None]:
    """Let them happen; `on_error` hears of each error."""
    failed = Counter[tuple[AttemptKey, Outcome]]()
    with contextlib.ExitStack() as stack:
        for each in breaks:
            function = cast("FunctionType", BREAKABLE[each.function])

            def is_meant(args: Sequence[Any], options: Any, each: Break = each) -> bool:
                meant = each.at <= now() < each.until and _dag_of(args[0]) == each.dag_id
                for report in (arg for arg in args if meant and isinstance(arg, Report)):
                    failed[report.key, report.outcome] += 1
                    meant = failed[report.key, report.outcome] < MOST_FAILURES
                if meant:
                    on_error()
                return meant

            stack.enter_context(failing(function, is_meant))
        yield


def _dag_of(value: Any) -> str | None:
    match value:
        case Board():
            return value.run.dag_id
        case Graph():
            return value.spec.dag_id
        case DagSpec():
            return value.dag_id
    return None
