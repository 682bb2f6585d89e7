"""Decides what runs next, and keeps each decision in one database.

service.py        the Scheduler: its parts, start and stop    actions.py, run_handle.py  what an application may ask
executor_choice.py  from the settings to an executor          gc_tuning.py  Python's collector of cycles

state/            what is held in memory                      journal/    the group commit
session/          what the loops share
runs/             which runs exist, and which start           slots/      evaluation and the critical section
requests/         what people and programs ask for            partitions/ which DAGs it owns
membership/       incarnation, lease, heartbeat               effects/    what follows a commit
services/         what running tasks ask                      why/        why something does not run
observability/    figures for others
"""

from typing import TYPE_CHECKING

from aiosched.lazy import imported_on_demand

if TYPE_CHECKING:
    from aiosched.scheduler.run_handle import RunHandle
    from aiosched.scheduler.service import Scheduler
    from aiosched.scheduler.session.events import SchedulerEvent

__all__ = ["RunHandle", "Scheduler", "SchedulerEvent"]

# Imported when they are asked for: who only asks `why` (why.py) needs no executors.
_HOMES = {"RunHandle": "run_handle", "Scheduler": "service", "SchedulerEvent": "session.events"}

__getattr__, __dir__ = imported_on_demand(__name__, _HOMES)
