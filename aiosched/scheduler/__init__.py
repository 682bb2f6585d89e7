"""Decides what runs next, and keeps each decision in one database.

service.py        the Scheduler: its parts, start and stop    actions.py, run_handle.py  requests of an application
executor_choice.py  from the settings to an executor          gc_tuning.py  Python's garbage collector

state/            the state in memory                         journal/    the group commit
session/          what the loops share
runs/             which runs exist, and which start           slots/      evaluation and the critical section
requests/         requests from the inbox                     partitions/ which DAGs it owns
membership/       incarnation, lease, heartbeat               effects/    what follows a commit
engines/          attempts that run elsewhere
services/         services for running tasks                  why/        why something does not run
observability/    figures, StatsD, idleness
"""

from typing import TYPE_CHECKING

from aiosched.lazy import imported_on_demand

if TYPE_CHECKING:
    from aiosched.scheduler.run_handle import RunHandle
    from aiosched.scheduler.service import Scheduler
    from aiosched.scheduler.services.all_services import services_of
    from aiosched.scheduler.services.bundle_services import CodeArchives
    from aiosched.scheduler.session.events import SchedulerEvent

__all__ = ["CodeArchives", "RunHandle", "Scheduler", "SchedulerEvent", "services_of"]

# Imported on first use: `why` (why.py) needs no executors.
_HOMES = {
    "CodeArchives": "services.bundle_services",
    "RunHandle": "run_handle",
    "Scheduler": "service",
    "SchedulerEvent": "session.events",
    "services_of": "services.all_services",
}

__getattr__, __dir__ = imported_on_demand(__name__, _HOMES)
