"""The queued runs that a DAG's running runs wait for: they start first, beyond a limit if necessary.

A running run that waits for its previous run (graph/previous_run.py) keeps its place under `max_active_runs`. If the
previous run was cleared and is queued under the same limit, neither could ever continue. So it starts before all other
queued runs, and if all runs under the limit are blocked, it starts even though the limit is reached.

Pure. The scheduler finds out which runs wait (scheduler/runs/awaited.py), `runs_to_start` decides what follows
(run_creation.py). Source: the semantics reference, sections 6 and 14.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

_NONE: Final[Mapping[int, int]] = MappingProxyType({})


class WaitingRun(NamedTuple):
    """A running run that may wait for earlier runs.

    group         the id of its backfill, None for none: it counts for that limit
    waits_for     the key of its previous run, if one of its tasks waits for that run
    stands_still  none of its tasks is active, or will be before an earlier run continues
    """

    group: int | None
    waits_for: int | None = None
    stands_still: bool = False


@dataclass(frozen=True, slots=True)
class AwaitedRuns:
    """What the start decision needs to know about runs that wait for each other.

    by     each awaited queued run, in the order in which they start -> a running run that waits for it,
           or for one that comes after it
    first  those of them without an unfinished previous run: they can continue at once
    still  the limits (by backfill id) all of whose running runs are blocked
    """

    by: Mapping[int, int] = field(default_factory=lambda: _NONE)
    first: frozenset[int] = frozenset()
    still: frozenset[int | None] = frozenset()


NONE_AWAITED: Final = AwaitedRuns()


def find_awaited(running: Mapping[int, WaitingRun], before: Mapping[int, int | None]) -> AwaitedRuns:
    """The awaited queued runs of one DAG.

    `running` has all its running runs by key, `before` the previous run of each queued run that may be awaited, None if
    it depends on none.
    """
    by: dict[int, int] = {}
    seen: set[int] = set()
    for waiting in running:
        met: list[tuple[int, int]] = []
        waiter, at = waiting, running[waiting].waits_for
        while at is not None and at not in seen:
            if at in running:
                waiter, at = at, running[at].waits_for
                continue
            if at not in before:
                break
            seen.add(at)
            met.append((at, waiter))
            at = before[at]
        by.update(reversed(met))
    if not by:
        return NONE_AWAITED
    first = frozenset(run for run in by if (earlier := before[run]) not in running and earlier not in before)
    at_work = {one.group for one in running.values() if not one.stands_still}
    return AwaitedRuns(by, first, frozenset({one.group for one in running.values()} - at_work))


def who_waits_for(run: int, running: Mapping[int, WaitingRun], before: Mapping[int, int | None]) -> int | None:
    """A running run that waits for `run`, directly or through others, or None. Arguments as for `find_awaited`."""
    for waiting, standing in running.items():
        at = standing.waits_for
        while at is not None and at != run:
            at = running[at].waits_for if at in running else before.get(at)
        if at is not None:
            return waiting
    return None
