"""Cluster policies: rules of those who run an installation, applied to every DAG when its file is read.

    # airflow_local_settings.py, on the import path
    def dag_policy(dag): ...
    def task_policy(task): ...
    def task_instance_mutation_hook(task_instance): ...  # also before each attempt

A policy changes what it is given, or raises: then the file is an import error. Entry points of the group
`airflow.policy` name modules or objects whose functions `hookimpl` marks. A policy that cannot be imported refuses
every file. DAG files run in the same process and can undo a policy: it is a rule for colleagues, not a boundary.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from types import MappingProxyType, SimpleNamespace
from typing import Any, Final, TypeVar

from aiosched.authoring.base.checks import fail, warn
from aiosched.authoring.plugins.listeners import marked_functions
from aiosched.errors import SkippedByPolicy
from aiosched.signatures import signature_of

LOCAL_SETTINGS: Final = "airflow_local_settings"
_OLDER: Final = {"policy": "task_policy"}  # in Airflow 1.10
INSTANCE_HOOK: Final = "task_instance_mutation_hook"
_KINDS: Final = ("dag_policy", "task_policy", INSTANCE_HOOK)
_FOLLOWED: Final = ("queue", "pool", "pool_slots", "executor", "executor_config")  # what the hook sets for a task

WITHOUT_EFFECT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "pod_mutation_hook": "pods of the executor are made without code of authors: use its pod template and "
        "executor_config (KubernetesPodOperator calls the hook)",
        "get_airflow_context_vars": "give the variables to the tasks (env=), or read the context",
        "get_dagbag_import_timeout": "set core.dagbag_import_timeout",
        "STATE_COLORS": "the pages have colours of their own",
    }
)
"""Names of the module that have none: what to do instead."""

Policy = Callable[[Any], object]
AnyDag = TypeVar("AnyDag")


@dataclass(slots=True)
class Policies:
    """The policies of a process, by kind, and what is wrong with them: a place and a text each."""

    by_kind: dict[str, list[Policy]] = field(default_factory=lambda: {kind: [] for kind in _KINDS})
    without_effect: list[tuple[str, str]] = field(default_factory=list)
    broken: list[tuple[str, str]] = field(default_factory=list)

    def load(self, entry_points: Iterable[EntryPoint]) -> None:
        """Import the policies of this installation."""
        sources: list[tuple[str, Callable[[], Any]]] = [
            (f"entry point {one.name!r} ({one.value})", one.load) for one in entry_points
        ]
        if find_spec(LOCAL_SETTINGS) is not None:
            sources.append((LOCAL_SETTINGS, partial(importlib.import_module, LOCAL_SETTINGS)))
        for where, load in sources:
            try:
                found = load()
                functions = list(_of_settings(found) if where == LOCAL_SETTINGS else marked_functions(found))
            except (Exception, SystemExit) as error:
                self.broken.append((where, f"cannot be imported: {type(error).__name__}: {error}"))
                continue
            for name, function in functions:
                self._add(where, _OLDER.get(name, name), function)

    def _add(self, where: str, name: str, function: Any) -> None:
        if name in self.by_kind and callable(function):
            self.by_kind[name].append(function)
        elif name in WITHOUT_EFFECT:
            self.without_effect.append((where, f"{name} has no effect: {WITHOUT_EFFECT[name]}"))

    def applied(self, dags: Iterable[AnyDag]) -> list[AnyDag]:
        """The DAGs of a file as the policies leave them, without those that a policy skips.

        Raises DagError, at the line of the DAG, for what a policy raises, and when a policy is broken.
        """
        found: list[Any] = list(dags)
        if self.broken and found:
            broken = "; ".join(" ".join(one) for one in self.broken)
            raise fail(f"The cluster policies are broken, so no DAG is read: {broken}.", found[0]._origin)
        return [dag for dag in found if self._is_kept(dag)] if any(self.by_kind.values()) else found

    def _is_kept(self, dag: Any) -> bool:
        try:
            self._call("dag_policy", dag, dag)
            for task in dag.tasks:
                self._call("task_policy", task, dag)
                self._settle(task, dag)
        except SkippedByPolicy as reason:
            warn(f"DAG {dag.dag_id!r} is left out by a cluster policy: {reason}", dag._origin)
            return False
        return True

    def _call(self, kind: str, argument: Any, dag: Any) -> None:
        for policy in self.by_kind[kind]:
            try:
                _called(policy, argument)
            except (SkippedByPolicy, _OnlyInARun):
                raise
            except Exception as error:
                what = f"{type(error).__name__}: {error}"
                raise fail(f"The cluster policy {kind} refuses DAG {dag.dag_id!r}: {what}", dag._origin) from error

    def _settle(self, task: Any, dag: Any) -> None:
        """Let the hook set queue, pool and the like of a task, for all its tries."""
        if not self.by_kind[INSTANCE_HOOK]:
            return
        try:
            first, later = (self._hooked(task, dag, tries) for tries in (0, 2))
        except _OnlyInARun as asked:
            warn(f"{INSTANCE_HOOK} asks for {asked.name!r} of a task instance, which is known only in a run: queue and "
                 "pool are decided when the file is read, so it does not change them.", task._origin)  # fmt: skip
            return
        for name, value in first.items():
            if name in _FOLLOWED:
                setattr(task, name, value)
        ignored = {name for name in later if name not in _FOLLOWED or later[name] != getattr(task, name)}
        ignored |= first.keys() - set(_FOLLOWED)
        if ignored:
            warn(f"{INSTANCE_HOOK} sets {', '.join(sorted(ignored))} of task {task.task_id!r} at some tries only, or "
                 f"what cannot be set: that has no effect. It can set {', '.join(_FOLLOWED)} for all tries.",
                 task._origin)  # fmt: skip

    def _hooked(self, task: Any, dag: Any, try_number: int) -> dict[str, Any]:
        """What the hook sets of an instance of the task that has been tried so often."""
        facts = {name: getattr(task, name) for name in (*_FOLLOWED, "task_id", "priority_weight")}
        known = SimpleNamespace(
            **facts, task=task, dag_id=dag.dag_id, map_index=-1, try_number=try_number, max_tries=task.retries,
            operator=task.task_type, state=None, start_date=None, end_date=None, duration=None,
        )  # fmt: skip
        instance = _HookedInstance(known)
        self._call(INSTANCE_HOOK, instance, dag)
        return {name: value for name, value in vars(instance).items() if name != "_known"}

    def before_attempt(self, ti: Any) -> None:
        """Call the hook with the running task instance: it may change `ti.task`, a copy. Raises what it raises."""
        ti.task = copy.copy(ti.task)
        for hook in self.by_kind[INSTANCE_HOOK]:
            _called(hook, _HookedInstance(ti))


class _OnlyInARun(AttributeError):
    """Something of a task instance that is not known when a file is read."""


class _HookedInstance:
    """A task instance for the hook: what it sets is noted here, and changes nothing else."""

    def __init__(self, known: Any) -> None:
        self._known = known

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(self._known, name)
        except AttributeError as error:
            raise _OnlyInARun(str(error), name=name, obj=self) from None


def _of_settings(module: Any) -> Iterator[tuple[str, Any]]:
    """What the module gives: its `__all__`, or all names."""
    names = getattr(module, "__all__", None)
    return ((name, getattr(module, name)) for name in (sorted(vars(module)) if names is None else names))


def _called(policy: Policy, argument: Any) -> None:
    """Call a policy; as in pluggy, it may leave out its parameter."""
    if signature_of(policy).parameters:
        policy(argument)
    else:
        policy()  # type: ignore[call-arg]
