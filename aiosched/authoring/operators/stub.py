"""Tasks without code of their own: something else does the work and reports it."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from aiosched.authoring.operators.python import PythonOperator
from aiosched.errors import FailTask

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context


class StubOperator(PythonOperator):
    """The task of an empty function with `@task.stub`: its place in the DAG, its options and its arguments.

    Its `queue` or `executor` names workers that do the work by themselves. A worker that executes it as Python fails it
    for good, since there is no code. Raises DagError for a function with code, and for a `retry_policy`.
    """

    keeps_state: ClassVar[bool] = False

    def __init__(self, *, python_callable: Callable[..., Any], **kwargs: Any) -> None:
        super().__init__(python_callable=python_callable, **kwargs)
        if self.retry_policy is not None:
            raise self.fail(f"Task {self.task_id!r} is a stub: nobody would ask its retry_policy. Use retries=….")
        if not _is_empty(python_callable):
            raise self.fail(
                f"Task {self.task_id!r} is a stub, so the body of its function must be empty: write `...` or `pass`, "
                "or make it a @task."
            )

    def execute(self, context: Context) -> Any:
        """Fail: there is nothing to execute."""
        raise FailTask(
            f"task {self.task_id!r} is a stub, which a Python worker cannot execute: give it the queue or executor of "
            "the workers that do its work"
        )


def _is_empty(function: Callable[..., Any]) -> bool:
    """Whether the body of a function is `pass`, `...` or a docstring."""
    try:
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return False
    return isinstance(node, ast.FunctionDef) and all(map(_says_nothing, node.body))


def _says_nothing(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return statement.value.value is ... or isinstance(statement.value.value, str)
    return isinstance(statement, ast.Pass)
