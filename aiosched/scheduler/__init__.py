"""Decides what runs next, and keeps each decision in one database.

service.py        the Scheduler: parts, start, requests       run_handle.py  a run that an application asked for
executor_choice.py  from the settings to an executor          gc_tuning.py  Python's garbage collector

memory/           what it holds, and what is not stored yet    session/    what its loops share
attempts/         what runs here, and its reports             failures/   whom an error concerns, and what is left alone
concurrency/      how loops rest, wake and take turns         journal/    the group commit
loops/            one file for each loop                      runs/       which runs exist, and which start
slots/            claims, and the pools of a batch            effects/    what follows a commit, timed work
requests/         requests from the inbox                     partitions/ which DAGs it owns
membership/       incarnation, lease, heartbeat
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
_MODULES = {
    "run_handle": "RunHandle",
    "service": "Scheduler",
    "services.all_services": "services_of",
    "services.bundle_services": "CodeArchives",
    "session.events": "SchedulerEvent",
}

__getattr__, __dir__ = imported_on_demand(__name__, _MODULES)
