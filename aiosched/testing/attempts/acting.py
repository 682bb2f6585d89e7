"""Acting: operators that run their real code in a world, and sensors that poke for the result of their script.

Operators act if they decide by what the scheduler knows (branches, short circuits, clocks, runs of other DAGs) or ask
people, sensors if their script sets when they are done. An attempt takes the same steps as in the real runner; clock,
loop and services are the world's. Callbacks do not run: the world records them. Source: the semantics
reference, sections 7, 24 and 25.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from aiosched.authoring.operators.asset_check import AssetCheckOperator
from aiosched.authoring.operators.branching import BaseBranchOperator, LatestOnlyOperator
from aiosched.authoring.operators.human_input import HITLOperator
from aiosched.authoring.operators.python import BranchPythonOperator, ShortCircuitOperator
from aiosched.authoring.operators.sensor import BaseSensorOperator, PokeReturnValue
from aiosched.authoring.operators.trigger_dagrun import TriggerDagRunOperator
from aiosched.authoring.sensors.external import ExternalTaskSensor
from aiosched.authoring.sensors.external_marker import ExternalTaskMarker
from aiosched.authoring.sensors.temporal import DayOfWeekSensor, MomentSensor
from aiosched.authoring.triggers.temporal import DateTimeTrigger
from aiosched.clock import Clock
from aiosched.core.values.messages import Attempt, AttemptKey, Deferral, Outcome, Report, RunInfo, TaskServices
from aiosched.errors import FailTask
from aiosched.executors.attempt.attempts import TriggerExecution
from aiosched.executors.attempt.environment import AttemptEnvironment
from aiosched.executors.attempt.runner import DagSource, DagUnavailable, Execution, drive
from aiosched.testing.attempts.endings import Ending
from aiosched.testing.attempts.virtual_loop import VirtualLoop

if TYPE_CHECKING:
    from aiosched.authoring.dag.dag import DAG
    from aiosched.authoring.runtime.context import Context
    from aiosched.authoring.tasks.operator import BaseOperator
    from aiosched.authoring.triggers.base import BaseTrigger

ACTING: Final = (
    BaseBranchOperator, BranchPythonOperator, DayOfWeekSensor, ExternalTaskMarker, ExternalTaskSensor,
    HITLOperator, LatestOnlyOperator, MomentSensor, ShortCircuitOperator, TriggerDagRunOperator,
)  # fmt: skip
_TRIGGERS: Final = (
    "aiosched.authoring.triggers.temporal.", "aiosched.authoring.triggers.external.",
    "aiosched.authoring.triggers.human_input.",
)  # fmt: skip
_SURROUNDINGS: Final = AttemptEnvironment(hostname="world", pid=0)


class PokeFailed(Exception):
    """Raised by a sensor whose script makes it fail."""


Poke = Callable[["Context"], Awaitable[Any]]


class Authored:
    """The DAG objects of authors, by version number. Implements the runner's DagSource."""

    def __init__(self, version_of: Callable[[int], int]) -> None:
        self._dags: dict[int, DAG] = {}
        self._version_of = version_of  # the version of the run with this key

    def put(self, version: int, dag: DAG) -> None:
        """Register the DAG of a version."""
        self._dags[version] = dag

    def task_of(self, attempt: Attempt) -> BaseOperator | None:
        """The task of an attempt; None if only the serialized DAG is known."""
        if not self._dags:
            return None
        dag = self.cached(attempt.run)
        return None if dag is None else dag.task_dict.get(attempt.task_id)

    def cached(self, run: RunInfo) -> DAG | None:
        """See DagSource."""
        return self._dags.get(self._version_of(run.key))

    async def load(self, run: RunInfo) -> DAG:
        """See DagSource. There is nothing to load."""
        raise DagUnavailable(f"The world knows the DAG {run.dag_id!r} only as a DagSpec: add the DAG itself.")

    def forget(self, run: RunInfo) -> None:
        """See DagSource."""


class Stage:
    """Runs acting operators and triggers, each as a coroutine on the world's loop."""

    def __init__(self, clock: Clock, dags: Authored, services: TaskServices) -> None:
        self._clock, self._dags, self._services = clock, dags, services
        self._made: VirtualLoop | None = None
        self._acting: dict[AttemptKey, tuple[Execution, asyncio.Task[None]]] = {}
        self._reports: list[Report] = []

    def begin(self, attempt: Attempt, ending: Ending) -> list[Report]:
        """Start an attempt or a trigger; returns the reports of all that have ended by now."""
        poke = _poke(ending, self._clock) if _is_of_poke(ending) else None
        if attempt.trigger is None:
            kind: type[Execution] = _Acting
            is_async = attempt.is_async or poke is not None
            attempt = msgspec.structs.replace(attempt, is_async=is_async)
        else:
            kind = _ActingTrigger
        execution = kind(attempt, self._services, _SURROUNDINGS, blocking=drive)
        assert isinstance(execution, _Acting | _ActingTrigger)
        execution.clock = self._clock
        if isinstance(execution, _Acting):
            execution.poke, execution.ending = poke, ending

        def start() -> None:
            work = self._loop.create_task(self._play(execution))
            self._acting[attempt.key] = (execution, work)

        return self._turn(start)

    @property
    def earliest(self) -> datetime | None:
        """When something that acts continues next; now, if there are reports that were not collected."""
        if self._reports:
            return self._clock.now()
        return None if self._made is None else self._made.earliest

    def go_on(self) -> list[Report]:
        """Continue what is due; returns the reports of all that have ended."""
        return self._turn()

    def stop(self, keys: Collection[AttemptKey]) -> None:
        """Cancel attempts, without a report."""
        found = [self._acting.pop(key) for key in keys if key in self._acting]
        if not found:
            return

        def cancel() -> None:
            for execution, work in found:
                execution.stop_requested = True
                work.cancel()

        self._loop.turn(cancel)  # others may have ended in it: see `earliest`

    def die(self) -> None:
        """Cancel everything, without a report."""
        self.stop(list(self._acting))

    def close(self) -> None:
        """Cancel everything and close the loop."""
        self.die()
        if self._made is not None:
            self._made.close()
            self._made = None

    @property
    def _loop(self) -> VirtualLoop:
        if self._made is None:
            self._made = VirtualLoop(self._clock)
        return self._made

    def _turn(self, work: Callable[[], object] = lambda: None) -> list[Report]:
        self._loop.turn(work)
        reports, self._reports = self._reports, []
        return reports

    async def _play(self, execution: Execution) -> None:
        report = await execution.run(self._dags)
        if self._acting.pop(execution.attempt.key, None) is not None:
            self._reports.append(report)


def decides(task: BaseOperator | None) -> bool:
    """Whether the operator acts if no script sets how it ends."""
    return task is not None and issubclass(task.operator_class, ACTING)


def is_sensor(task: BaseOperator | None) -> bool:
    """Whether a script may set the result of its pokes."""
    return task is not None and issubclass(task.operator_class, BaseSensorOperator)


def is_check(task: BaseOperator | None) -> bool:
    """Whether the task says something of an asset when it ends well, as its script sets."""
    return task is not None and issubclass(task.operator_class, AssetCheckOperator)


def pokes(attempt: Attempt, ending: Ending) -> bool:
    """Whether a sensor acts and pokes for the result of its script: until it is done, or to fail as a sensor does."""
    return _is_of_poke(ending) and (attempt.resume is None or attempt.resume.error is not None)


def decides_as_trigger(deferral: Deferral) -> bool:
    """Whether a trigger waits only for what exists in a world."""
    return deferral.classpath.startswith(_TRIGGERS)


def _is_of_poke(ending: Ending) -> bool:
    return ending.outcome is Outcome.FAILED or (ending.outcome is Outcome.SUCCESS and ending.holds_at is not None)


def _poke(ending: Ending, clock: Clock) -> Poke:
    """The poke function of a sensor, by its script."""

    async def poke(context: Context) -> Any:
        if ending.holds_at is not None and clock.now() < ending.holds_at:
            return False
        if ending.outcome is Outcome.FAILED:
            kind = FailTask if ending.fail_now else PokeFailed
            raise kind(ending.reason or "it failed as its script says")
        _give(ending, context)
        return PokeReturnValue(True, ending.returns)

    return poke


class _Acting(Execution):
    """A try of an operator that acts."""

    __slots__ = ("clock", "ending", "poke")
    clock: Clock
    ending: Ending
    poke: Poke | None

    async def _render(self, task: BaseOperator, context: Context) -> BaseOperator:
        operator = copy.copy(await super()._render(task, context))
        if hasattr(operator, "clock"):
            operator.clock = self.clock
        if isinstance(operator, AssetCheckOperator):
            says = partial(_say_async if operator.is_async else _say, self.ending)
            operator.__dict__.update(python_callable=says, op_args=(), op_kwargs={})
        if self.poke is not None:
            overrides = {"poke": self.poke, "pokes_async": True, "is_async": True, "deferred_on": self._deferred_on}
            operator.__dict__.update(overrides)  # its own methods and a cached property
        return operator

    async def _execute(self, call: Callable[[Context], Any], context: Context, is_async: bool) -> Any:
        pokes = self.poke is not None and self.attempt.resume is None
        return await super()._execute(call, context, is_async or pokes)

    def _deferred_on(self, context: Context) -> BaseTrigger:
        return DateTimeTrigger(self.ending.holds_at or self.clock.now())

    async def _call_all(self, kind: str, callbacks: Sequence[Callable[..., Any]]) -> None:
        """Callbacks do not run in a world."""


def _say(ending: Ending, **context: Any) -> Any:
    """The function of a check, by its script; by default it passes."""
    _give(ending, context)
    return True if ending.returns is None else ending.returns


async def _say_async(ending: Ending, **context: Any) -> Any:
    return _say(ending, **context)


def _give(ending: Ending, context: Mapping[str, Any]) -> None:
    """Push values, and add events, by a script."""
    for key, value in ending.pushes.items():
        context["ti"].xcom_push(key, value)
    for event in ending.events:
        context["outlet_events"].note(event)
    for outlet in context["outlet_events"].values() if ending.partitions else ():
        outlet.add_partitions(ending.partitions)


class _ActingTrigger(TriggerExecution):
    """A trigger that acts."""

    __slots__ = ("clock",)
    clock: Clock

    async def _load(self, deferral: Deferral, dags: DagSource) -> BaseTrigger:
        trigger = await super()._load(deferral, dags)
        if isinstance(trigger, DateTimeTrigger):
            trigger.clock = self.clock  # type: ignore[misc] # this trigger's own
        return trigger
