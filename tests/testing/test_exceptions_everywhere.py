"""Whatever function of `core` raises for one DAG: the others go on as if nothing had been, that one does so later.

A first run of each world finds the functions that it calls about its first DAG. Each of them raises in a run of its
own, whenever it is about that DAG: by its arguments, or by those of the function that has called it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import os
import pkgutil
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

import aiosched.core
import aiosched.testing
from aiosched.core.graph.graph import Graph
from aiosched.core.graph.instances import Instance
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.run.board import Board, Run
from aiosched.core.slots.allocation import Candidate, DagRoom
from aiosched.core.values.messages import Attempt, AttemptKey, Report
from aiosched.db.statements.runs import DagRow, StoredVersion
from aiosched.errors import InternalError, Refused
from aiosched.scheduler.memory.cache import OwnedDag
from aiosched.scheduler.runs.new_runs import Creation
from aiosched.testing import World
from tests.one_dag import failing, functions_of
from tests.testing.rich_dags import HOUR, SHAPES, Shape
from tests.testing.world_builders import NEW_YEAR, history

PHASE: Final = 6 * HOUR
CORE: Final = str(Path(aiosched.core.__file__).parent)
TESTING: Final = Path(aiosched.testing.__file__).parent
# A world decides in these files and functions; its others stand for the database, for parsing and for workers.
WHOLLY: Final = frozenset(str(TESTING / name) for name in ("member.py", "world_memory.py", "people.py"))
DECIDING: Final = {"rows/assets.py": ("ready", "consume")}
REGISTERING: Final = ("add", "emit")
BOOKKEEPING: Final = "scheduler/attempts/attempts.py"  # of all attempts at once, also for executors
# Beginnings of the names of functions that are about no DAG, or about all: slots, parsing, requests, JSON.
SHARED: Final = (
    "assets.conditions:", "creation.backfills:rerun_of", "creation.run_creation:check_schedule",
    "graph.previous_run:StoredRun", "graph.spec:", "requests.instance_changes:TouchedInstances.__init__",
    "requests.instance_changes:marking", "requests.job_terms:", "requests.jobs:", "requests.options:options_of",
    "requests.requests:", "requests.stored:",
    "run.deferral:is_trigger",
    "slots.allocation:Room.", "slots.allocation:PoolRoom.", "slots.allocation:_pool_refusal", "slots.waiting:",
    "timetables.", "values.json_bounds:", "values.patterns:", "values.states:", "values.typed_",
)  # fmt: skip
LEAST_COVERED: Final = 295
MOST_PHASES: Final = 100
EARLY: Final = timedelta(minutes=3, seconds=30)
MOST_CALLERS: Final = 25
NIGHTLY: Final = os.environ.get("AIOSCHED_NIGHTLY") == "1"
STEP: Final = 72  # of the functions by name one in so many, from the first on; then from these, all in nightly runs
PARTS: Final = range(1, STEP) if NIGHTLY else range(6, STEP, 6)


# -- which DAG a call is about ------------------------------------------------------------------


@dataclass
class WhoseCall:
    """Finds the DAG that a call is about."""

    world: World
    tasks: dict[int, str] = field(default_factory=dict)  # by the id of a TaskSpec, which the world keeps alive

    def dag_of(self, frame: types.FrameType | None, arguments: dict[str, Any] | None = None) -> str | None:
        """By the arguments, else by those of the callers; None if it is unknown, or about several DAGs."""
        for _ in range(MOST_CALLERS):
            if arguments is None:
                if frame is None:
                    return None
                code = frame.f_code
                names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
                arguments, frame = {name: frame.f_locals.get(name) for name in names}, frame.f_back
            found = {dag_id for value in arguments.values() if (dag_id := self._of(value)) is not None}
            if found:
                return found.pop() if len(found) == 1 else None
            arguments = None
        return None

    def _of(self, value: Any) -> str | None:
        match value:
            case Board():
                return value.run.dag_id if hasattr(value, "run") else None  # one that is being made
            case Run() | DagSpec() | DagRow() | DagRoom():
                return getattr(value, "dag_id", None)
            case StoredVersion() | Graph():
                spec = getattr(value, "spec", None)
                return None if spec is None else spec.dag_id
            case OwnedDag():
                return value.row.dag_id
            case Creation():
                return value.dag.row.dag_id
            case Attempt():
                return value.run.dag_id
            case AttemptKey():
                run = self.world.rows.runs.get(value.run)
                return None if run is None else run.dag_id
            case Report():
                return self._of(value.key)
            case Candidate():
                return self._of(getattr(value, "dag", None))
            case TaskSpec():
                if id(value) not in self.tasks:
                    for version in self.world.rows.versions.values():
                        self.tasks |= {id(task): version.spec.dag_id for task in version.spec.tasks}
                return self.tasks.get(id(value))
            case Instance():
                return None
            case list() | tuple() if len(value) == 1:
                return self._of(value[0])
        return None


def decides(frame: types.FrameType | None) -> bool:
    """Whether the scheduler makes the call, not what stands for its database and its workers."""
    while frame is not None and frame.f_code.co_filename.startswith(CORE):
        frame = frame.f_back
    if frame is None:
        return False
    file, function = frame.f_code.co_filename, frame.f_code.co_name
    if not file.startswith(str(TESTING)):
        return "aiosched/scheduler/" in file and not file.endswith(BOOKKEEPING)
    return function in DECIDING.get(file.removeprefix(f"{TESTING}/"), ()) or (
        file in WHOLLY and function not in REGISTERING
    )


# -- one world ----------------------------------------------------------------------------------


async def play(shape: Shape, fault: Callable[[World, str], contextlib.AbstractContextManager[Any]] | None) -> Played:
    """Two DAGs of a shape; as long as it is clear that the first has work left, `fault` is in place for it."""
    world = World(now=NEW_YEAR, takes=timedelta(minutes=1))
    bugs = 0
    dag_ids = [shape.add(world, copy) for copy in ("bad", "good")]
    deeds = {dag_id: list(shape.deeds) for dag_id in dag_ids}
    with contextlib.ExitStack() as stack:
        unscheduled = stack.enter_context(noticing("scheduled"))
        if fault is not None:
            stack.enter_context(fault(world, dag_ids[0]))
        for phase in range(1, MOST_PHASES):
            await world.run_until(NEW_YEAR + (phase - 1) * PHASE + EARLY)
            await world.restart()  # in the middle of runs
            await world.run_until(NEW_YEAR + phase * PHASE)
            if phase == len(shape.deeds) + 2:
                stack.close()
                await world.restart()
            for dag_id in dag_ids:
                if dag_id not in unscheduled or phase > len(shape.deeds) + 2:
                    bugs += act(world, dag_id, deeds[dag_id])
            if phase > len(shape.deeds) + 3 and not any(deeds.values()) and world.rows.quarantine.earliest() is None:
                break
    await world.run_until_idle()
    return Played(world, {*world.rows.quarantine.rows, *unscheduled}, bugs)


@contextlib.contextmanager
def noticing(word: str) -> Iterator[set[str]]:
    """The DAGs about which an error is logged that has the word in it: an error in a timetable is one of its DAG."""
    found: set[str] = set()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno == logging.ERROR and word in record.msg:
                found.add(vars(record)["dag_id"])

    logger, handler = logging.getLogger("aiosched"), Handler()
    logger.addHandler(handler)
    try:
        yield found
    finally:
        logger.removeHandler(handler)


@dataclass
class Played:
    """A world at its end, which DAGs were left alone, and how many requests were answered as bugs."""

    world: World
    quarantined: set[str]
    bugs: int

    def results(self, dag_id: str) -> list[Any]:
        """The results of all runs and tasks, without times."""
        world, found = self.world, []
        for run in world.runs(dag_id):
            name = run.run_id if not run.run_id.startswith("asset") else "asset"
            rows = world.rows.instances[run.key].values()
            places = sorted((row.task_index, row.map_index, row.state or "", row.try_number) for row in rows)
            found.append((name, run.state.value, run.reason or "", places))
        return sorted(found)


def act(world: World, dag_id: str, deeds: list[Any]) -> int:
    """Do the next deed if the DAG rests; what is refused because of the fault is done later. Returns the bugs met."""
    if not deeds or any(run.state.value == "running" for run in world.rows.runs.values() if run.dag_id == dag_id):
        return 0
    try:
        deeds[0](world, dag_id)
    except InternalError:
        return 1
    except Refused as error:
        if "quarantine" not in str(error):
            raise
        return 0
    del deeds[0]
    return 0


# -- which functions there are ------------------------------------------------------------------


@cache
def functions() -> dict[types.CodeType, tuple[str, types.FunctionType]]:
    """The functions of `core` by their code, with their names."""
    found = {}
    for module in pkgutil.walk_packages(aiosched.core.__path__, "aiosched.core."):
        if ".why" not in module.name:
            for name, function in functions_of(importlib.import_module(module.name)).items():
                found[function.__code__] = (name.removeprefix("aiosched.core."), function)
    return found


@functools.cache
def memoized() -> frozenset[types.CodeType]:
    """Functions that are called only for arguments that they were not called with before."""
    modules = [importlib.import_module(m.name) for m in pkgutil.walk_packages(aiosched.core.__path__, "aiosched.core.")]
    found = (value for module in modules for value in vars(module).values() if hasattr(value, "cache_clear"))
    return frozenset(value.__wrapped__.__code__ for value in found)


@contextlib.contextmanager
def watched(world: World, dag_id: str, called: dict[types.CodeType, bool]) -> Iterator[None]:
    """Note the functions of `core` that are called, and whether that is ever about the DAG, in a decision."""
    whose, known = WhoseCall(world), functions()

    def note(frame: types.FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code in known and not called.get(frame.f_code):
            is_kept = frame.f_back is not None and frame.f_back.f_code in memoized()
            called[frame.f_code] = not is_kept and decides(frame.f_back) and whose.dag_of(frame) == dag_id

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)


@dataclass(frozen=True)
class Found:
    """The functions that the worlds call: those about the first DAG of a shape, by name, and all others."""

    about: dict[str, tuple[types.FunctionType, Shape]]
    others: list[str]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def found() -> Found:
    about: dict[str, tuple[types.FunctionType, Shape]] = {}
    others: set[str] = set()
    for shape in SHAPES:
        called: dict[types.CodeType, bool] = {}
        await play(shape, lambda world, dag_id, called=called: watched(world, dag_id, called))
        for code, is_about in called.items():
            name, function = functions()[code]
            if is_about and code not in memoized():
                about.setdefault(name, (function, shape))
            else:
                others.add(name)
    return Found(about, sorted(others - about.keys()))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def undisturbed() -> dict[str, Played]:
    """What each shape becomes when nothing fails."""
    return {shape.name: await play(shape, None) for shape in SHAPES}


def raising(function: types.FunctionType) -> Callable[[World, str], contextlib.AbstractContextManager[Any]]:
    """A fault: the function raises when it is about the DAG."""

    def fault(world: World, dag_id: str) -> contextlib.AbstractContextManager[Any]:
        whose = WhoseCall(world)

        def is_meant(args: Any, options: Any) -> bool:
            frame = sys._getframe(3)
            arguments = dict(enumerate(args)) | options
            return decides(frame) and whose.dag_of(frame, arguments) == dag_id

        return failing(function, is_meant)

    return fault


# -- the rule -----------------------------------------------------------------------------------


async def wrong(name: str, function: types.FunctionType, shape: Shape, undisturbed: Played) -> str | None:
    """What is wrong after a function has failed for one DAG; None if nothing is."""
    bad, good = f"{shape.name}_bad", f"{shape.name}_good"
    try:
        faulty = await play(shape, raising(function))
    except Exception as error:
        return f"{name}: the world ended with {error!r}"
    if bad not in faulty.quarantined and not faulty.bugs:
        return f"{name}: {bad} was not in quarantine"
    if good in faulty.quarantined:
        return f"{name}: {good} was in quarantine"
    if history(faulty.world, good) != history(undisturbed.world, good):
        return f"{name}: {good} has another history"
    if faulty.results(bad) != undisturbed.results(bad):
        return f"{name}: {bad} ends otherwise"
    return None


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in PARTS)])
async def test_whatever_function_fails_for_one_dag_no_other_is_affected_and_nothing_is_lost(
    found: Found, undisturbed: dict[str, Played], first: int
) -> None:
    problems = []
    for name in sorted(found.about)[first::STEP]:
        function, shape = found.about[name]
        if (problem := await wrong(name, function, shape, undisturbed[shape.name])) is not None:
            problems.append(problem)

    assert problems == []


def test_nearly_all_functions_that_a_world_calls_are_about_a_dag(found: Found, undisturbed: dict[str, Played]) -> None:
    assert len(found.about) >= LEAST_COVERED
    assert {name for name in found.others if not name.startswith(SHARED)} == set()
    assert all(played.quarantined == set() for played in undisturbed.values())
