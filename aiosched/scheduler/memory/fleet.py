"""What a session knows of the other schedulers, and which of their notifications it has yet to act on."""

from __future__ import annotations

from dataclasses import dataclass, field

from aiosched.scheduler.concurrency.period import Period
from aiosched.scheduler.memory.pool_fairness import PoolFairness


@dataclass(slots=True)
class Membership:
    """The place of this scheduler in the fleet."""

    pool_fairness: PoolFairness  # towards other schedulers that need slots of the same pools
    draining: bool = False  # it claims and creates nothing more
    keeps_until: float = 0.0  # the monotonic second: a view of the fleet from before takes no partition away
    has_peers: bool = False
    gained_at: float = 0.0  # the monotonic second at which partitions were acquired last
    given_back: dict[int, float] = field(default_factory=dict)  # partitions released, at this monotonic second


@dataclass(slots=True)
class Notifications:
    """What was announced by NOTIFY and not read yet."""

    changed_dags: set[int] = field(default_factory=set)  # partitions with changed DAGs
    reload_from: float = 0.0  # the monotonic second from which on they may be read again
    has_requests: bool = True  # there may be requests in the inbox
    has_reports: bool = False  # other schedulers, or workers on engines, have sent reports
    safety_poll: Period = field(default_factory=Period)  # of reading everything, in case a notification was lost
