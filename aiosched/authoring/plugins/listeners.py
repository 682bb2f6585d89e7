"""Listeners: functions of plugins that are told how task instances go.

    @hookimpl
    def on_task_instance_failed(previous_state, task_instance, error): ...

They run where the task runs, before or after it: `running`, `success`, `failed` and `skipped`. A function takes the
parameters that it needs. What it raises is logged and changes nothing. Hooks that are not about a running task are
refused: the scheduler runs no code of authors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar, overload

from aiosched.signatures import signature_of

F = TypeVar("F", bound=Callable[..., Any])
Hook = Callable[..., Any]

HOOKS: Final = frozenset(f"on_task_instance_{what}" for what in ("running", "success", "failed", "skipped"))

_RUNS: Final = "the scheduler runs no code of authors: use on_success_callback and on_failure_callback of the DAG"
_ASSETS: Final = "the scheduler runs no code of authors: let a DAG wait for the asset"
_PROCESSES: Final = "a worker may serve many tasks: use an on_task_instance_… hook"
REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "on_dag_run_running": _RUNS,
        "on_dag_run_success": _RUNS,
        "on_dag_run_failed": _RUNS,
        "on_asset_created": _ASSETS,
        "on_asset_alias_created": _ASSETS,
        "on_asset_changed": _ASSETS,
        "on_asset_event_emitted": _ASSETS,
        "on_dataset_created": _ASSETS,
        "on_dataset_alias_created": _ASSETS,
        "on_dataset_changed": _ASSETS,
        "on_new_dag_import_error": "the scheduler runs no code of authors: `aiosched dags errors` lists import errors",
        "on_existing_dag_import_error": "the scheduler runs no code of authors: `aiosched dags errors` lists them",
        "on_starting": _PROCESSES,
        "before_stopping": _PROCESSES,
    }
)
"""Hooks of Airflow that are never called: the reason, and what to use instead."""

_MARK: Final = "airflow_impl"  # pluggy's for this project, so that functions marked with it are found, too
_MARK_OF_POLICIES: Final = "airflow.policy_impl"


@overload
def hookimpl(function: F) -> F: ...
@overload
def hookimpl(function: None = None, **options: Any) -> Callable[[F], F]: ...
def hookimpl(function: F | None = None, **options: Any) -> F | Callable[[F], F]:
    """Mark a function as one that a listener offers: `@hookimpl`. Options of pluggy have no effect."""
    if function is None:
        return lambda found: hookimpl(found)
    setattr(function, _MARK, options)
    return function


def marked_functions(listener: object) -> Iterator[tuple[str, Hook]]:
    """The functions of a listener or of policies (a module or an object) that are marked, by name."""
    for name in sorted({*vars(type(listener)), *getattr(listener, "__dict__", {})}):
        function = getattr(listener, name, None)
        marks = (getattr(function, mark, None) for mark in (_MARK, _MARK_OF_POLICIES))
        if callable(function) and any(isinstance(mark, dict) for mark in marks):
            yield name, function


def call(hook: Hook, facts: Mapping[str, Any]) -> Any:
    """Call a hook with those of the `facts` that it has parameters for."""
    parameters = signature_of(hook).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return hook(**facts)
    return hook(**{parameter.name: facts.get(parameter.name) for parameter in parameters})
