"""Which DAG an unforeseen error concerns.

An exception in a decision or a statement about one DAG, which is neither a failure of the database nor the loss of the
lease, becomes a `DagFailure`. It ends the session: how far the decision got is not known, so everything is read again,
and the DAG is left alone (quarantine.py). Source: docs/architecture.md, "Quarantine".
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from typing import TypeVar

import asyncpg

from aiosched.core.values.messages import Report
from aiosched.db.server.failures import is_about_content, is_of_database
from aiosched.errors import DagFailure

logger: logging.Logger = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")


class ReportFailure(DagFailure):
    """An unforeseen error in applying `report` to its run, or in storing its results."""

    def __init__(self, dag_id: str, report: Report) -> None:
        super().__init__(dag_id, "a report")
        self.report = report


class NotRepeated(Exception):
    """An unforeseen error in work for several DAGs that did not come again when each DAG was tried alone."""

    def __init__(self, place: str, error: Exception) -> None:
        super().__init__(f"{place}: {type(error).__name__}: {error}")


def failure_of(error: Exception, dag_id: str, place: str) -> DagFailure:
    """`error` as a failure of this DAG in `place`, in words. Raises `error` itself if it concerns no single DAG."""
    return _caused(error, DagFailure(dag_id, place))


def failure_of_report(error: Exception, dag_id: str, report: Report) -> DagFailure:
    """`error` in applying or storing `report`, as a failure of its DAG. Raises it if it concerns no single DAG."""
    return _caused(error, ReportFailure(dag_id, report))


def _caused(error: Exception, failure: DagFailure) -> DagFailure:
    if isinstance(error, DagFailure):
        return error
    if not is_unforeseen(error):
        raise error
    failure.__cause__ = error
    return failure


@contextlib.contextmanager
def ending(discard: Callable[[], None]) -> Iterator[None]:
    """A loop whose error ends the session: `discard` is called, so that nothing that waits to be stored is stored.

    The other loops go on until they are cancelled, a moment later, and may not store what the failed one has begun.
    """
    try:
        yield
    except Exception:
        discard()
        raise


class concerning:
    """A block in which an unforeseen error is raised as a DagFailure."""

    __slots__ = ("_dag_id", "_place")

    def __init__(self, dag_id: str, place: str) -> None:
        self._dag_id, self._place = dag_id, place

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            raise failure_of(error, self._dag_id, self._place) from error


def raise_failures(failures: Collection[DagFailure]) -> None:
    """Raise them together, if there are any."""
    if failures:
        raise ExceptionGroup("errors that concern one DAG each", list(failures))


async def for_each_dag(
    place: str,
    items: Sequence[T],
    dag_of: Callable[[T], str],
    work: Callable[[Sequence[T]], Awaitable[R]],
    *,
    held: Collection[str],
) -> R:
    """The result of `work` on all items.

    If it raises an unforeseen error, it is repeated with the items of each DAG alone: those that fail again are raised
    as DagFailures, and if none does, the error is NotRepeated. What `work` has changed in memory is void then, as the
    session ends. `held` are the DAGs that this scheduler holds.
    """
    try:
        return await work(items)
    except Exception as error:
        if isinstance(error, DagFailure) or not is_unforeseen(error):
            raise
        groups, failures = _grouped(items, dag_of), []
        for dag_id, group in groups.items():
            try:
                await work(group)
            except Exception as again:
                failures.append(failure_of(again, dag_id, place))
        if not failures:
            raise NotRepeated(place, error) from error
        if not is_about_all(failures, groups, held):
            raise_failures(failures)
        raise


def is_about_all(failures: Collection[object], tried: Collection[str], held: Collection[str]) -> bool:
    """Whether every DAG failed that was tried, and no other is held: what fails for every DAG concerns none of them.

    Two that fail together, as when they leave quarantine at the same instant, are not all.
    """
    return len(failures) == len(tried) > 1 and set(held) <= set(tried)


async def spare_others(
    place: str, items: Sequence[T], group_of: Callable[[T], str], work: Callable[[Sequence[T]], Awaitable[None]]
) -> list[T]:
    """As `for_each_dag`, for work on which no decision depends: what fails is logged and returned, to be tried later.

    `work` must change memory only after its transaction.
    """
    try:
        await work(items)
        return []
    except Exception as error:
        if not is_unforeseen(error):
            raise
    failed: list[T] = []
    for name, group in _grouped(items, group_of).items():
        try:
            await work(group)
        except Exception as error:
            if not is_unforeseen(error):
                raise
            logger.exception("%s of %s failed; all others go on", place, name)
            failed += group
    return failed


def _grouped(items: Sequence[T], group_of: Callable[[T], str]) -> dict[str, list[T]]:
    groups: dict[str, list[T]] = {}
    for item in items:
        groups.setdefault(group_of(item), []).append(item)
    return groups


def failures_in(error: BaseException) -> list[DagFailure]:
    """The failures of DAGs in an error that ended a session; empty if there is also one that concerns no single DAG."""
    found: dict[str, DagFailure] = {}
    for leaf in _leaves(error):
        if isinstance(leaf, DagFailure):
            found.setdefault(leaf.dag_id, leaf)
        elif not (isinstance(leaf, NotRepeated) or is_of_database(leaf)):
            return []
    return list(found.values())


def report_failures_in(error: BaseException) -> list[ReportFailure]:
    """The reports in an error that ended a session, each with what happened when it was applied."""
    return [leaf for leaf in _leaves(error) if isinstance(leaf, ReportFailure)]


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error


def is_unforeseen(error: Exception) -> bool:
    """Whether an error is neither a failure of the database nor one that sessions expect: it may concern one DAG."""
    if isinstance(error, ExceptionGroup) or is_of_database(error):
        return False
    return not isinstance(error, asyncpg.InterfaceError) or is_about_content(error)
