"""`BaseAsyncOperator`: Airflow's base of operators whose work is a coroutine, `aexecute`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiosched.authoring.base.plain_callers import for_plain_callers
from aiosched.authoring.tasks.operator import BaseOperator

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context


class BaseAsyncOperator(BaseOperator):
    """Subclasses implement `aexecute`. Any operator here may as well make `execute` a coroutine function."""

    async def aexecute(self, context: Context) -> Any:
        """Do the work and return the value for XCom, or None."""
        raise NotImplementedError(f"{type(self).__name__} has no aexecute(self, context): implement it.")

    @for_plain_callers
    async def execute(self, context: Context) -> Any:
        """`aexecute`."""
        return await self.aexecute(context)
