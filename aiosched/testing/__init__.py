"""Tools for testing DAGs: a whole scheduler on a virtual clock, and a pytest plugin.

    world.py         World: the real scheduling code in memory    people.py      requests of people
    view.py          reading its state                            checks.py      invariants after each commit
    member.py        one scheduler: its passes and commits        world_memory.py  its state in memory
    decisions.py     the decision log, and the scripts of attempts
    services.py      the services for acting operators            simulation.py  what would run when
    dag_bag.py       all DAGs of a folder                         plugin.py      the fixtures
    answers.py       answers to tasks that ask people
    attempts/        how attempts run and end                     rows/          the stored rows, with their guards

Names are imported on first use, so that the plugin costs nothing where it is not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiosched.lazy import imported_on_demand

if TYPE_CHECKING:
    from aiosched.testing.attempts.endings import (
        Ending,
        defers,
        dies,
        fails,
        never_begins,
        never_ends,
        reschedules,
        skips,
        succeeds,
    )
    from aiosched.testing.checks import InvariantBroken
    from aiosched.testing.dag_bag import DagBag, load_dag_bag
    from aiosched.testing.simulation import Simulation, simulate
    from aiosched.testing.world import World

_MODULES = {
    "attempts.endings": "Ending defers dies fails never_begins never_ends reschedules skips succeeds",
    "checks": "InvariantBroken",
    "dag_bag": "DagBag load_dag_bag",
    "simulation": "Simulation simulate",
    "world": "World",
}

__getattr__, __dir__ = imported_on_demand(__name__, _MODULES)

__all__ = [
    "DagBag",
    "Ending",
    "InvariantBroken",
    "Simulation",
    "World",
    "defers",
    "dies",
    "fails",
    "load_dag_bag",
    "never_begins",
    "never_ends",
    "reschedules",
    "simulate",
    "skips",
    "succeeds",
]
