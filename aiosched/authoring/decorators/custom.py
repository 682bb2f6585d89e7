"""Decorators of one's own: the base class of their operators, and the decorators that provider packages register.

`task_decorator_factory` makes a decorator of such a class; `@task.docker` is one of a provider (aiosched/providers.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from aiosched.authoring.operators.python import call_arguments, is_coroutine_function, plain_source
from aiosched.authoring.tasks.operator import BaseOperator
from aiosched.errors import AioschedError, did_you_mean
from aiosched.providers import task_decorators

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context


class FunctionOperator(BaseOperator):
    """Base of operators that are made by a decorator, mixed in before another operator's class.

    It keeps `python_callable`, `op_args` and `op_kwargs`; everything else goes to the other class, whose `execute` does
    the work. Most subclasses override `execute` to call the function first.
    """

    template_fields: ClassVar[Sequence[str]] = ("op_args", "op_kwargs")
    template_fields_renderers: ClassVar[Mapping[str, str]] = {"op_args": "py", "op_kwargs": "py"}
    custom_operator_name: str = ""  # such as "@task.docker", to display
    keeps_state: ClassVar[bool] = True

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        task_id: str,
        op_args: Collection[Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        kwargs_to_upstream: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.python_callable = python_callable
        self.op_args: list[Any] = list(op_args or ())
        self.op_kwargs: dict[str, Any] = dict(op_kwargs or {})
        # The other class may keep fewer of them.
        self.called_with: tuple[list[Any], dict[str, Any]] = (self.op_args, self.op_kwargs)
        super().__init__(task_id=task_id, **{**(kwargs_to_upstream or {}), **kwargs})

    @property
    def is_async(self) -> bool:
        """Whether `execute` is a coroutine function, or calls one."""
        if type(self).execute is FunctionOperator.execute and self._calls_the_function:
            return is_coroutine_function(self.python_callable)
        return super().is_async

    @property
    def _calls_the_function(self) -> bool:
        """Whether no other class that this is mixed into has an `execute`."""
        kinds = type(self).__mro__
        after = kinds[kinds.index(FunctionOperator) + 1 :]
        return next(kind for kind in after if "execute" in vars(kind)) is BaseOperator

    def execute(self, context: Context) -> Any:
        """`execute` of the other class; without one, call the function with values of the context."""
        if not self._calls_the_function:
            return super().execute(context)
        kwargs = call_arguments(self.python_callable, self.op_args, self.op_kwargs, context)
        return self.python_callable(*self.op_args, **kwargs)

    def get_python_source(self) -> str:
        """The source of the function without its decorators. Raises DagError for what has none."""
        if (source := plain_source(self.python_callable)) is None:
            raise self.fail(f"Task {self.task_id!r}: only a function made by `def` can run elsewhere.")
        return source


def registered_decorator(name: str) -> Any:
    """The decorator `@task.NAME` of an installed provider. Raises AttributeError that says what to install."""
    known = task_decorators()
    if name not in known:
        hint = did_you_mean(name, known)
        raise AttributeError(
            f"There is no decorator @task.{name}.{hint} Provider packages register more of them: "
            "`aiosched providers list` shows those that are installed."
        )
    module, _, function = known[name].rpartition(".")
    try:
        return getattr(import_module(module), function)
    except ImportError as error:
        raise AioschedError(f"The decorator @task.{name} ({known[name]}) cannot be imported: {error}") from error
