"""Skipping tasks from the code of an operator: Airflow's mix-ins for branches of one's own.

The class of a task that skips others must say so before it runs, so both mix-ins set `can_skip_downstream`.
Source: the semantics reference, sections 7.2 and 7.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Final

from aiosched.authoring.operators.python import decide_branch
from aiosched.core.values.messages import SkipDecision
from aiosched.errors import AioschedError

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context
    from aiosched.authoring.runtime.task_instance import TaskInstance

XCOM_SKIPMIXIN_KEY: Final = "skipmixin_key"  # Airflow's names for where it keeps the decision; nothing is pushed here
XCOM_SKIPMIXIN_SKIPPED: Final = "skipped"
XCOM_SKIPMIXIN_FOLLOWED: Final = "followed"


class SkipMixin:
    """`skip` and `skip_all_except`, for operators."""

    can_skip_downstream: ClassVar[bool] = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "can_skip_downstream" not in vars(cls):
            cls.can_skip_downstream = True  # whichever base comes first

    def skip(self, ti: TaskInstance, tasks: Iterable[Any]) -> None:
        """Skip these tasks of the DAG; a later call replaces an earlier one.

        Only tasks downstream of this one can be skipped. Raises AioschedError for what is not a task.
        """
        wanted = [getattr(task, "task_id", task) for task in tasks]
        if wrong := [one for one in wanted if not isinstance(one, str)]:
            raise AioschedError(f"skip() needs tasks, not {wrong[0]!r}: call skip(ti, [task, …]).")
        if wanted:
            ti.skip_decision = SkipDecision(skipped=tuple(sorted(wanted)))

    def skip_all_except(self, ti: TaskInstance, branch_task_ids: str | Iterable[str] | None) -> None:
        """Follow the tasks or groups with these ids, and skip the other direct downstream tasks.

        Raises BranchError for an id that is not in the DAG.
        """
        _branch(ti, branch_task_ids)


class BranchMixIn(SkipMixin):
    """`do_branch`, for operators that decide what follows."""

    def do_branch(self, context: Context, branches_to_execute: str | Iterable[str] | None) -> Any:
        """As `skip_all_except`; the value to return from `execute`."""
        _branch(context["ti"], branches_to_execute)
        return branches_to_execute


def _branch(ti: TaskInstance, followed: str | Iterable[str] | None) -> None:
    task: Any = ti.task
    wanted = followed if followed is None or isinstance(followed, str) else list(followed)
    decide_branch(task, wanted, {"dag": task.dag, "ti": ti})  # type: ignore[arg-type] # all that it reads
