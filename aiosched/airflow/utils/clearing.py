"""`clear_task_instances` of Airflow 2, which changes rows of its database."""

from __future__ import annotations

from typing import Any, NoReturn

from aiosched.errors import Refused


def clear_task_instances(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise Refused: a task does not change rows."""
    raise Refused(
        "clear_task_instances() changes Airflow's database, and there is none here: clear by the client, the API "
        "(docs/api.md) or `aiosched tasks clear`."
    )
