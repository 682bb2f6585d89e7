"""A task that does nothing, to join or fork dependencies."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from aiosched.authoring.tasks.operator import BaseOperator

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context


class EmptyOperator(BaseOperator):
    """Succeeds at once. Without on-execute and on-success callbacks, inlets and outlets it takes no slot."""

    ui_color = "#e8f7e4"
    keeps_state: ClassVar[bool] = False

    @property
    def is_trivial(self) -> bool:
        """Whether there is nothing to execute: then no worker is needed."""
        return type(self).execute is EmptyOperator.execute

    def execute(self, context: Context) -> None:
        """Do nothing."""
