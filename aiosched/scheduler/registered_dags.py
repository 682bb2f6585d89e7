"""The DAGs that a process gives to its scheduler as objects: stored at its start or later, like those of files."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType, NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, Union, get_args, get_origin

from aiosched.clock import Clock
from aiosched.core.graph.spec import DagSpec
from aiosched.core.requests.jobs import Job, declare_job
from aiosched.core.timetables.trigger import CronTriggerTimetable, DeltaTriggerTimetable
from aiosched.core.values.ids import partition_of
from aiosched.core.values.texts import a_type
from aiosched.db.server.engine import Database
from aiosched.db.statements import inbox
from aiosched.errors import ConfigError, NotFound, Refused
from aiosched.parsing.store import register_specs, withdraw_registered
from aiosched.signatures import can_be_given, signature_of, type_in, types_of

if TYPE_CHECKING:
    from aiosched.authoring.base.params import Param
    from aiosched.authoring.dag.dag import DAG

logger: logging.Logger = logging.getLogger(__name__)

LIST_AGAIN: Final = 600.0  # seconds; a list of runs covers at least the next two hours


def by_id(dags: Iterable[DAG]) -> dict[str, DAG]:
    """These DAGs by id. Raises ConfigError if one is something else, or two have one id."""
    if dags == ():
        return {}
    from aiosched.authoring.dag.dag import DAG  # a scheduler that has only files does without

    if not isinstance(dags, Iterable):
        raise ConfigError(f"dags= takes a list of DAG objects, not {a_type(dags)}.")
    found: dict[str, DAG] = {}
    for dag in dags:
        if not isinstance(dag, DAG):
            hint = ": call what @dag decorates, as in dags=[nightly()]" if callable(dag) else ""
            raise ConfigError(f"dags= takes DAG objects, not {a_type(dag)}{hint}.")
        if dag.dag_id in found:
            raise ConfigError(f"dags= has two DAGs with the id {dag.dag_id!r}: give each its own.")
        found[dag.dag_id] = dag
    return found


class ApplicationDags:
    """The DAGs of an application in this process: those of its start, and what it adds and removes while it runs.

    known   by id, what tasks run; those that were removed stay for their unfinished runs
    active  the ids of those that were not removed
    """

    def __init__(self, dags: Iterable[DAG], application: str) -> None:
        self.application = application
        self.are_given: bool = dags != ()  # an empty list is a list that will grow
        self.known: dict[str, DAG] = by_id(dags)
        self.active: set[str] = set(self.known)

    def declare(self, dag: DAG) -> None:
        """Add a DAG before the start. Raises Refused if it is registered already, or DAGs are read from files."""
        self._check_given()
        if dag.dag_id in self.known:
            raise Refused(f"{dag.dag_id!r} is registered already: give each job its own name.")
        self.known[dag.dag_id] = dag
        self.active.add(dag.dag_id)

    def _check_given(self) -> None:
        if not self.are_given:
            raise Refused(
                "This scheduler reads its DAGs from files. One whose application adds DAGs is made with those that it "
                "has at first: Scheduler(dags=[…]), an empty list if there are none."
            )

    @property
    def listed(self) -> list[DAG]:
        """Those whose runs are to be listed anew now and then."""
        return [dag for dag_id, dag in self.known.items() if dag_id in self.active and dag.lists_runs]

    async def add(self, db: Database, dags: Sequence[DAG], clock: Clock, *, paused: bool, replaces: bool) -> None:
        """Register more DAGs, or with `replaces` others in place of those with their ids. Raises as Scheduler.add."""
        self._check_given()
        for dag_id in (new := by_id(dags)):
            if (dag_id in self.active) != replaces:
                there = "is no DAG of this application: add it" if replaces else "is registered already: replace it"
                raise Refused(f"{dag_id!r} {there}.")
        before = {dag_id: self.known[dag_id] for dag_id in new if dag_id in self.known}
        self.known |= new  # first: once it is stored, it may run
        try:
            await register_dags(
                db, tuple(new.values()), clock, paused=paused, application=self.application, are_all=False
            )
        except BaseException:
            for dag_id in new:
                self.known.pop(dag_id)
            self.known |= before
            raise
        self.active |= new.keys()

    async def remove(self, db: Database, dag_id: str) -> None:
        """Make a DAG inactive. Raises NotFound."""
        async with db.transaction() as conn:
            withdrawn = await withdraw_registered(conn, self.application, dag_id)
        if not withdrawn and dag_id not in self.active:
            raise NotFound(f"The application {self.application!r} has registered no DAG {dag_id!r}.")
        self.active.discard(dag_id)
        await inbox.notify(db, "dags", [partition_of(dag_id)])


def job_of(
    function: Callable[..., Any],
    *,
    cron: str | None,
    every: float | timedelta | None,
    at: datetime | None,
    timezone: str,
    options: Mapping[str, Any],
    limits: Mapping[str, Any],
    given: Collection[Any] = (),
) -> DAG:
    """The DAG of one task that calls a function; its name is that of both, and its arguments are params of the DAG.

    `options` are those of the task, `limits` of the DAG. `given` are the names and types that the application fills.
    Raises Refused, DagError.
    """
    from aiosched.authoring.dag.dag import DAG
    from aiosched.authoring.decorators.taskflow import task

    if sum(one is not None for one in (cron, every, at)) > 1:
        raise Refused("A job has one of cron, every and at, or none: then it runs when it is triggered.")
    schedule: Any = None
    if cron is not None:
        schedule = CronTriggerTimetable(cron, timezone)
    elif every is not None:
        schedule = DeltaTriggerTimetable(every if isinstance(every, timedelta) else timedelta(seconds=every))
    elif at is not None:
        schedule = "@once"
    name, arguments = str(function.__name__), _arguments(function, given)
    if schedule is not None and (needed := [each for each, param in arguments.items() if not param.has_value]):
        raise Refused(f"The job {name} has a schedule, which gives no {', '.join(needed)}: give defaults.")
    doc, at_once = function.__doc__, limits["max_active_runs"]  # of runs of one task each
    with DAG(
        name, schedule=schedule, start_date=at, catchup=False, doc_md=doc, params=arguments, max_active_tasks=at_once,
        **limits,
    ) as dag:  # fmt: skip
        decorated = task(**options)(function)
        decorated.given = frozenset(_filled(function, given))
        decorated(**{name: dag.param(name) for name in arguments})
    declare_job(function, Job(name, {name: not param.has_value for name, param in arguments.items()}))
    return dag


_JSON_TYPES: Final[Mapping[Any, str]] = MappingProxyType(
    {bool: "boolean", int: "integer", float: "number", str: "string"}
)


def _filled(function: Callable[..., Any], given: Collection[Any]) -> set[str]:
    """The parameters of a function that the application fills, by name or by type."""
    kinds = {name: type_in(kind) for name, kind in types_of(function).items()}
    by_type = {name for name, kind in kinds.items() if can_be_given(kind) and kind in given}
    return by_type | {name for name in given if isinstance(name, str)}


def _arguments(function: Callable[..., Any], given: Collection[Any]) -> dict[str, Param]:
    """The params for the parameters of a job that neither the context nor the application fills.

    One whose default cannot be stored keeps that of the function.
    """
    from aiosched.authoring.base.params import Param
    from aiosched.authoring.base.signatures import named
    from aiosched.authoring.tasks.task_context import CONTEXT_KEYS

    types, filled, found = types_of(function), _filled(function, given) | CONTEXT_KEYS, dict[str, Param]()
    for parameter in named(signature_of(function).parameters.values()):
        if parameter.name in filled:
            continue
        default = () if parameter.default is parameter.empty else (parameter.default,)
        param = Param(*default, **_schema(types.get(parameter.name), may_be_none=default == (None,)))
        with contextlib.suppress(TypeError):
            param.to_spec()
            found[parameter.name] = param
    return found


def _schema(annotation: Any, *, may_be_none: bool) -> dict[str, Any]:
    """The JSON schema of a number, a text or a boolean; of anything else none."""
    kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    names = [_JSON_TYPES.get(kind) if kind is not NoneType else "null" for kind in kinds]
    if None in names:
        return {}
    if may_be_none and "null" not in names:
        names.append("null")
    return {"type": names[0] if len(names) == 1 else names}


async def register_dags(
    db: Database,
    dags: Sequence[DAG],
    clock: Clock,
    *,
    paused: bool,
    application: str | None = None,
    are_all: bool = True,
) -> None:
    """Store these DAGs and tell the owners of what has changed; new ones are `paused`. Their first attempts begin
    without delay: what they need is computed now. With an `application` these are all that it has from now on, unless
    not `are_all`.
    """
    if not dags and application is None:
        return
    now = clock.now()
    specs = await asyncio.to_thread(lambda: [_spec_of(dag, now) for dag in dags])
    async with db.transaction() as conn:
        stored = await register_specs(
            conn, specs, now=now, paused_at_creation=paused, application=application, are_all=are_all
        )
    if stored.withdrawn:
        logger.warning(
            "the application %r registers these DAGs no more, so they are inactive: %s. If another one does, on the "
            "same database, give each a name: Scheduler(application=…).",
            application, ", ".join(sorted(stored.withdrawn)),
        )  # fmt: skip
    if stored.changed:
        await inbox.notify(db, "dags", map(partition_of, stored.changed))


def _spec_of(dag: DAG, now: datetime) -> DagSpec:
    from aiosched.executors.attempt.plans import plan_tasks  # authoring code, which others that serve do without

    plan_tasks(dag)
    return dag.to_spec(now=now)


async def list_runs_anew(db: Database, dags: ApplicationDags, clock: Clock, *, paused: bool) -> None:
    """Periodically renew the lists of runs that custom timetables provide for a limited time ahead."""
    while True:
        await asyncio.sleep(LIST_AGAIN)
        try:
            await register_dags(db, dags.listed, clock, paused=paused)
        except Exception as error:  # from a custom timetable or the database: the current lists stay valid
            logger.error("the runs of registered DAGs cannot be listed again: %s", error)
