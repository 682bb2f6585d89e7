"""Decides what runs next, and keeps each decision in one database.

The service
    service.py      the Scheduler: parts, start, stop      actions.py, run_handle.py  what an application may ask
    incarnation.py  a lease and its sessions               lease.py          the lease on its thread
    session.py      what the loops share                   ownership.py      who owns which partitions
    attempts.py     what the executor was given            pulse.py          how loops rest and wake; timers
    beginnings.py   attempts that do not begin
    metrics.py      figures                                events.py         what listeners are told
    garbage.py      Python's collector, told less often
    executor_choice.py  from the settings to an executor   retention.py      old history goes

What is held in memory
    holdings.py     DAGs, boards, who waits, what is due   loading.py        reading partitions
    versions.py     DAG versions                           recollections.py  what rows do not say of a board
    past.py, followers.py  the run before, and its news    desk.py           what decisions need of a session

The three loops, each a decision and its shell
    due_runs.py, run_creation.py, new_runs.py  which runs exist; queued_runs.py  and which wait
    evaluation.py                              what reports and timers mean
    claiming.py, enqueueing.py                 who gets a slot
    batch.py, journal.py                       the group commit

Requests and effects
    commands.py     requests from the inbox                clearing.py, stored_runs.py  clear and mark
    selection.py    what such a request means
    backfills.py    runs of past dates                     assets.py, asset_events.py   runs by events
    triggers.py     what deferred tasks wait for           outbox.py         delivering callbacks
    slas.py         tasks that are late                    notes.py          what people write
    deadlines.py    runs that are late                     task_services.py, asset_services.py,
                                                           secret_services.py  what running tasks may ask
    questions.py    asking until there is an answer        idle.py          what is left to do in the fleet
    why.py, why_slots.py  why something does not run, asked of the rows
"""

from typing import TYPE_CHECKING

from aiosched.lazy import imported_on_demand

if TYPE_CHECKING:
    from aiosched.scheduler.events import SchedulerEvent
    from aiosched.scheduler.run_handle import RunHandle
    from aiosched.scheduler.service import Scheduler

__all__ = ["RunHandle", "Scheduler", "SchedulerEvent"]

# Imported when they are asked for: who only asks `why` (why.py) needs no executors.
_HOMES = {"RunHandle": "run_handle", "Scheduler": "service", "SchedulerEvent": "events"}

__getattr__, __dir__ = imported_on_demand(__name__, _HOMES)
