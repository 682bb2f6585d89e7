"""Creates the executor of a scheduler from the settings, or from what an application passes.

Other packages add kinds by an entry point of the group `aiosched.executors`: its name is the
kind, its object a function that makes an executor or an engine from the settings. See docs/executors.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from aiosched.config import EXECUTOR_PLUGINS, Settings
from aiosched.core.values.messages import Executor
from aiosched.errors import AioschedError, ConfigError
from aiosched.executors.engines.engine import Engine
from aiosched.executors.executor_router import ExecutorRouter
from aiosched.scheduler.engines.engine_executor import EngineExecutor

if TYPE_CHECKING:
    from aiosched.authoring.dag.dag import DAG
    from aiosched.authoring.runtime.context import Context

One = str | Executor | Engine
Choice = One | Sequence[One] | Mapping[str, One]


def choose_executor(choice: Choice, settings: Settings, dags: Mapping[str, DAG] | None) -> Executor:
    """The executor for a choice: kinds (`"local,inline"`), objects, a sequence of these, or a mapping from names.

    If there are several, the first is the default, and tasks select the others by name. `dags` are those
    that the process registers, None if it reads files. Raises ConfigError.
    """
    if isinstance(choice, str):
        choice = [kind.strip() for kind in choice.split(",")]
    if isinstance(choice, Mapping):
        named = {name: _made(one, settings, dags) for name, one in choice.items()}
        return ExecutorRouter(_not_empty(named))
    if not isinstance(choice, Sequence):
        return _made(choice, settings, dags)
    made = [_made(one, settings, dags) for one in choice]
    if len(made) == 1:
        return made[0]
    members: dict[str, Executor] = {}
    for executor in made:
        if executor.name in members:
            raise ConfigError(
                f"Two executors are called {executor.name!r}: "
                "give them different names by a mapping, executor={'one': …, 'other': …}."
            )
        members[executor.name] = executor
    return ExecutorRouter(_not_empty(members))


def give_objects(
    executor: Executor, context: Mapping[Any, Any], around: Callable[[Context], AbstractAsyncContextManager[Any]] | None
) -> None:
    """Give the tasks of this process what an application has for them. Raises ConfigError if none run here."""
    from aiosched.executors.executor_router import members_of
    from aiosched.executors.inline.executor import InlineExecutor

    inline = [one for one in members_of(executor).values() if isinstance(one, InlineExecutor)]
    if not inline:
        raise ConfigError(
            "context= and around= are for tasks that run in this process: choose executor='inline', or let worker "
            "processes make what they need."
        )
    for one in inline:
        one.give(context, around)


def make_executor(kind: str, settings: Settings, dags: Mapping[str, DAG] | None) -> Executor:
    """The executor of this kind. `dags` are those that the process registers; all others come from files."""
    core, executor = settings.core, settings.executor
    if kind == "local":
        if dags:
            raise ConfigError(
                "DAGs given as objects run with executor='inline': worker processes load DAGs from files. "
                "Use dags_folder=… for executor='local'."
            )
        from aiosched.executors.local.executor import LocalExecutor, LocalOptions

        return LocalExecutor(LocalOptions.from_settings(settings))
    if kind == "inline":
        if executor.run_as is not None:
            raise ConfigError(
                "executor.run_as needs executor.kind = 'local': with 'inline' code of DAG authors runs in the "
                "scheduler's own process."
            )
        from aiosched.executors.attempt.dag_cache import FileDags
        from aiosched.executors.attempt.environment import AttemptEnvironment
        from aiosched.executors.inline.executor import InlineExecutor

        return InlineExecutor(
            FileDags.of(settings) if dags is None else dags,
            AttemptEnvironment.of(settings),
            slots=executor.slots,
            async_slots=executor.async_slots,
            cleanup_time=core.killed_task_cleanup_time,
        )
    return _plugin(kind, settings)


def _plugin(kind: str, settings: Settings) -> Executor:
    found = entry_points(group=EXECUTOR_PLUGINS)
    if kind not in found.names:
        others = "".join(f", {name!r}" for name in sorted(found.names))
        raise ConfigError(
            f"There is no executor {kind!r}: use 'local' (worker processes), 'inline' (this process){others}, "
            "or install the package that has it."
        )
    try:
        executor: Executor | Engine = found[kind].load()(settings)
    except AioschedError:
        raise
    except Exception as error:
        where = found[kind].value
        raise ConfigError(f"The executor {kind!r} ({where}) cannot be made: {type(error).__name__}: {error}") from error
    return _as_executor(executor, settings)


def _made(one: One, settings: Settings, dags: Mapping[str, DAG] | None) -> Executor:
    return make_executor(one, settings, dags) if isinstance(one, str) else _as_executor(one, settings)


def _as_executor(one: Executor | Engine, settings: Settings) -> Executor:
    """An executor as it is; an engine with what makes it an executor."""
    if not isinstance(one, Engine):
        return one
    from aiosched.executors.local.executor import LocalExecutor, LocalOptions

    options, here = LocalOptions.from_settings(settings), f"http://127.0.0.1:{settings.web.port}"
    return EngineExecutor(one, LocalExecutor(options), urls=options.worker_api or [here])


def _not_empty(members: Mapping[str, Executor]) -> Mapping[str, Executor]:
    if not members:
        raise ConfigError("A scheduler needs an executor: 'inline', 'local', or an object.")
    return members
