"""`TriggerDagRunOperator(python_callable=…)` of Airflow 1.10: a function that decides about the run to start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiosched.errors import SkipTask

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context


@dataclass
class DagRunOrder:
    """The run to start: its id and its conf. A function that returns None starts none."""

    run_id: str | None = None
    payload: Any = None


def before_triggering(
    function: Callable[[Context, DagRunOrder], DagRunOrder | None], pre_execute: Callable[[Context], Any] | None
) -> Callable[[Context], None]:
    """A `pre_execute` that calls `function(context, order)` and hands its order to the operator.

    Raises SkipTask when the function returns None.
    """

    def ask(context: Context) -> None:
        if pre_execute is not None:
            pre_execute(context)
        order = function(context, DagRunOrder())
        if order is None:
            raise SkipTask("the function decided to start no run")
        operator = context["task"]
        operator.trigger_run_id = order.run_id or operator.trigger_run_id
        operator.conf = order.payload if order.payload is not None else operator.conf

    return ask
