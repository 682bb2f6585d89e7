"""The base class of notifiers: objects that are callbacks of tasks or DAGs."""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from aiosched.authoring.tasks.rendering import MARKS

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context
    from aiosched.authoring.runtime.templates import TemplateEngine


class BaseNotifier:
    """A callback that is created in the DAG file and called with a context.

    Subclasses implement `notify(context)`, a plain or coroutine function. The attributes in `template_fields` are
    rendered before the call. In callbacks of a DAG `ti` and `task` may be None.
    """

    template_fields: ClassVar[Sequence[str]] = ()

    def notify(self, context: Context) -> Any:
        """Send the notification. May be a coroutine function; a plain one is called in a thread."""
        raise NotImplementedError(f"{type(self).__name__} has no notify(self, context): implement it.")

    async def __call__(self, context: Context) -> None:
        """Render the templates, then call `notify`."""
        notifier = await asyncio.to_thread(self.rendered, context)
        if inspect.iscoroutinefunction(notifier.notify):
            await notifier.notify(context)
        else:
            await asyncio.to_thread(notifier.notify, context)

    def rendered(self, context: Context) -> Self:
        """A copy with rendered template fields. May block to fetch XComs, variables and connections."""
        twin = copy.copy(self)
        engine: TemplateEngine = context["dag"].templates
        for name in self.template_fields:
            setattr(twin, name, _rendered(getattr(self, name), engine, context))
        return twin

    @property
    def log(self) -> logging.Logger:
        """The logger. Its messages are in the log of the attempt."""
        return logging.getLogger(f"aiosched.task.{type(self).__module__}.{type(self).__name__}")

    def __repr__(self) -> str:
        return type(self).__name__


def _rendered(value: Any, engine: TemplateEngine, context: Context) -> Any:
    if isinstance(value, str):
        return engine.text(value, context) if any(mark in value for mark in MARKS) else value
    if isinstance(value, Mapping):
        return {key: _rendered(item, engine, context) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rendered(item, engine, context) for item in value]
    return value
