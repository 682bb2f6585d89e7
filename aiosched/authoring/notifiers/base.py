"""The base class of notifiers: objects that are callbacks of tasks or DAGs."""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from aiosched.authoring.base.plain_callers import is_on_loop, value_of
from aiosched.authoring.tasks.templater import Templater

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context


class BaseNotifier(Templater):
    """A callback that is created in the DAG file and called with a context.

    Subclasses implement `notify(context)`, a plain or coroutine function, or `async_notify(context)`, which is called
    where there are both. The attributes in `template_fields` are rendered before the call. In callbacks of a DAG `ti`
    and `task` may be None.
    """

    template_fields: ClassVar[Sequence[str]] = ()
    template_ext: ClassVar[Sequence[str]] = ()
    dag: Any = None  # of the callback, while its templates are rendered

    def __init__(self, **kwargs: Any) -> None:
        """Takes the arguments that subclasses pass on; a class without an `__init__` of its own takes none."""
        if kwargs and type(self).__init__ is BaseNotifier.__init__:
            raise TypeError(f"{type(self).__name__} takes no arguments, and was given {', '.join(kwargs)}.")

    def notify(self, context: Context) -> Any:
        """Send the notification. May be a coroutine function; a plain one is called in a thread."""
        raise NotImplementedError(f"{type(self).__name__} has no notify(self, context): implement it.")

    async def async_notify(self, context: Context) -> Any:
        """Send the notification on an event loop."""
        if inspect.iscoroutinefunction(self.notify):
            return await self.notify(context)
        return await asyncio.to_thread(self.notify, context)

    def __call__(self, context: Context) -> Awaitable[None] | None:
        """Render the templates, then notify. On an event loop it has to be awaited; elsewhere it is done at once."""
        work = self._notify_rendered(context)
        return work if is_on_loop() else value_of(work)

    async def _notify_rendered(self, context: Context) -> None:
        notifier = await asyncio.to_thread(self.rendered, context)
        await notifier.async_notify(context)

    def rendered(self, context: Context) -> Self:
        """A copy with rendered template fields. May block to fetch XComs, variables and connections."""
        twin = copy.copy(self)
        twin.dag = context["dag"]
        twin.resolve_template_files()
        twin.render_template_fields(context)
        return twin

    @property
    def log(self) -> logging.Logger:
        """The logger. Its messages are in the log of the attempt."""
        return logging.getLogger(f"aiosched.task.{type(self).__module__}.{type(self).__name__}")

    def __repr__(self) -> str:
        return type(self).__name__
