"""Decides what runs next, and keeps each decision in one database.

service.py        the Scheduler: parts, start, stop      run_creation.py  which runs exist
incarnation.py    a lease and its sessions               evaluation.py    what reports and timers mean
session.py        what the loops share                   enqueueing.py    who gets a slot, and the commit
holdings.py       what is held in memory                 journal.py       the group commit
loading.py        reading partitions                     commands.py      requests from the inbox
ownership.py      who owns which partitions              lease.py         the lease on its thread
pulse.py          how loops rest and wake; timers        metrics.py       figures
due_runs.py       which runs are due: the decision       claiming.py      who gets a slot: the decision
new_runs.py       the rows of new runs                   desk.py          what decisions need of a session
triggers.py       running what deferred tasks wait for   attempts.py      what the executor was given
outbox.py         delivering callbacks                   deadlines.py     runs that are late
"""

from aiosched.scheduler.events import SchedulerEvent
from aiosched.scheduler.service import RunHandle, Scheduler

__all__ = ["RunHandle", "Scheduler", "SchedulerEvent"]
