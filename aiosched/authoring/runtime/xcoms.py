"""Airflow's `XCom`: values that tasks exchange, by class methods. They work inside a running task.

`ti.xcom_pull` and `ti.xcom_push` do the same and are shorter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiosched.authoring.runtime.context import running_context
from aiosched.authoring.runtime.xcom_values import read_xcom, write_xcom
from aiosched.core.values.messages import RETURN_VALUE
from aiosched.errors import AioschedError

if TYPE_CHECKING:
    from aiosched.authoring.runtime.instance_keys import TaskInstanceKey
    from aiosched.authoring.runtime.task_instance import TaskInstance


class TaskXCom:
    """Reads XComs as `ti.xcom_pull` does, also those of other DAGs and runs, and pushes the task's own."""

    XCOM_RETURN_KEY = RETURN_VALUE

    @classmethod
    def get_one(
        cls,
        *,
        key: str = RETURN_VALUE,
        dag_id: str | None = None,
        task_id: str | None = None,
        run_id: str | None = None,
        map_index: int | None = None,
        include_prior_dates: bool = False,
        session: object = None,
    ) -> Any:
        """One value, or None; without `task_id` that of the running task. Raises Refused for a DAG of another team."""
        return _running().xcom_pull(
            task_ids=task_id,
            key=key,
            map_indexes=None if map_index is None and task_id is not None else map_index,
            include_prior_dates=include_prior_dates,
            dag_id=dag_id,
            run_id=run_id,
        )

    @classmethod
    def get_value(cls, *, ti_key: TaskInstanceKey, key: str = RETURN_VALUE) -> Any:
        """The value that the task of `ti_key` pushed, or None."""
        return cls.get_one(
            key=key,
            dag_id=ti_key.dag_id,
            task_id=ti_key.task_id,
            run_id=ti_key.run_id,
            map_index=ti_key.map_index,
        )

    @classmethod
    def set(
        cls,
        key: str,
        value: Any,
        *,
        dag_id: str | None = None,
        task_id: str | None = None,
        run_id: str | None = None,
        map_index: int = -1,
    ) -> None:
        """Push `value` as the running task. Raises AioschedError for another task: only a task pushes its XComs."""
        ti = _running()
        named = (dag_id or ti.dag_id, task_id or ti.task_id, run_id or ti.run_id)
        if named != (ti.dag_id, ti.task_id, ti.run_id):
            raise AioschedError(
                f"XCom.set({key!r}) is for task {named[1]!r} of run {named[2]!r}, but {ti.task_id!r} runs here. "
                "A task pushes only its own values."
            )
        ti.xcom_push(key, value)

    @staticmethod
    def serialize_value(value: Any, **_: Any) -> str:
        """The JSON text of a value."""
        return write_xcom(value).decode()

    @staticmethod
    def deserialize_value(result: Any) -> Any:
        """The value of a JSON text, or of an object with such a text as `value`."""
        text = getattr(result, "value", result)
        return read_xcom(text) if isinstance(text, str | bytes) else text


def _running() -> TaskInstance:
    context = running_context()
    if context is None or context.get("ti") is None:
        raise AioschedError("XComs can be read and pushed only inside a running task.")
    ti: TaskInstance = context["ti"]
    return ti
