"""`@asset`: a function that produces an asset, as a DAG with one task.

    @asset(schedule="@daily", uri="s3://shop/orders")
    def orders(context): ...

    @asset(schedule=orders)
    def report(self, orders, inlet_events): ...

The DAG, its task and its asset have the function's name. The parameter `self` is the asset, and
`context` the context. Parameters with names of the context have its values; any other is an asset and an inlet.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from aiosched.authoring.assets.assets import Asset, AssetAlias
from aiosched.authoring.base.checks import fail
from aiosched.authoring.dag.dag import DAG
from aiosched.authoring.operators.python import PythonOperator, is_coroutine_function
from aiosched.authoring.runtime.context import get_current_context
from aiosched.authoring.tasks.task_context import CONTEXT_KEYS
from aiosched.signatures import signature_of


class AssetDefinition(Asset):
    """Returned by `@asset`: an asset. `dag` is the DAG that produces it."""

    __slots__ = ("dag", "function")

    def __init__(
        self, function: Callable[..., Any], *, uri: str | None, extra: Mapping[str, Any] | None, group: str
    ) -> None:
        super().__init__(function.__name__, uri, extra=extra, group=group)
        self.function = function
        self.dag: DAG | None = None


def asset(
    function: None = None,
    /,
    *,
    schedule: Any = None,
    uri: str | None = None,
    extra: Mapping[str, Any] | None = None,
    group: str = "asset",
    outlets: list[Asset | AssetAlias] | None = None,
    task_options: Mapping[str, Any] | None = None,
    **dag_options: Any,
) -> Callable[[Callable[..., Any]], AssetDefinition]:
    """Make a function produce an asset. `outlets` are further assets that it updates.

    `dag_options` are parameters of `DAG`, `task_options` those of its task.
    """
    if function is not None:
        raise fail("Write @asset(schedule=…), with parentheses: the schedule of its DAG; None is for manual runs only.")

    def define(function: Callable[..., Any]) -> AssetDefinition:
        made = AssetDefinition(function, uri=uri, extra=extra, group=group)
        options = {"doc_md": inspect.getdoc(function), **dag_options}
        with DAG(made.name, schedule=schedule, **options) as dag:
            inlets = [name for name in signature_of(function).parameters if _is_inlet(name)]
            PythonOperator(
                task_id=made.name,
                python_callable=_calling(function, made, inlets),
                outlets=[made, *(outlets or ())],
                inlets=[Asset.ref(name=name) for name in inlets],
                **dict(task_options or {}),
            )
        made.dag = dag
        return made

    return define


def _is_inlet(name: str) -> bool:
    return name not in ("self", "context") and name not in CONTEXT_KEYS


def _calling(function: Callable[..., Any], made: Asset, inlets: list[str]) -> Callable[..., Any]:
    """A function that takes the whole context and calls `function` with its parameters."""

    wanted = tuple(signature_of(function).parameters)
    constant: dict[str, Any] = {"self": made, **{name: Asset(name) for name in inlets}}

    def arguments() -> dict[str, Any]:
        context = get_current_context()
        given = {**constant, "context": context}
        return {name: given[name] if name in given else context[name] for name in wanted}

    async def run_async(**context: Any) -> Any:
        if "triggering_asset_events" in wanted:
            await context["triggering_asset_events"].load()
        return await function(**arguments())

    def run(**context: Any) -> Any:
        return function(**arguments())

    calling: Callable[..., Any] = run_async if is_coroutine_function(function) else run
    calling.__name__, calling.__doc__ = function.__name__, function.__doc__
    calling.__qualname__, calling.__module__ = function.__qualname__, function.__module__
    return calling
