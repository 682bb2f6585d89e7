"""Single functions of modules of Airflow of which nothing else is needed here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from shutil import which
from typing import Any, NoReturn, TypeVar

from aiosched.authoring.base.checks import fail
from aiosched.authoring.base.dependencies import cross_downstream
from aiosched.core.timetables import AssetOrTimeSchedule
from aiosched.errors import Refused

F = TypeVar("F", bound=Callable[..., object])


def DatasetOrTimeSchedule(*, timetable: Any, datasets: Any) -> AssetOrTimeSchedule:
    """`AssetOrTimeSchedule` under the name, and with the parameter, that Airflow 2 has."""
    return AssetOrTimeSchedule(timetable=timetable, assets=datasets)


def apply_defaults(function: F) -> F:
    """The function itself: default arguments apply to every operator, without the decorator of Airflow 1.10 and 2.0."""
    return function


def chain_linear(*elements: Any) -> None:
    """Connect each item with the next; of two neighbouring lists each item with each. An empty list is left out."""
    groups = [list(one) if isinstance(one, list | tuple) else [one] for one in elements]
    filled = [group for group in groups if group]
    if len(filled) < 2:
        raise fail("chain_linear() connects nothing: give it at least two tasks, or lists with tasks in them.")
    for left, right in pairwise(filled):
        cross_downstream(left, right)


def clear_task_instances(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise Refused: a task does not change rows."""
    raise Refused(
        "clear_task_instances() changes Airflow's database, and there is none here: clear by the client, the API "
        "(docs/api.md) or `aiosched tasks clear`."
    )


@dataclass(frozen=True, slots=True)
class AirflowParsingContext:
    """The DAG and the task for which the file is imported; None while all of its DAGs are read."""

    dag_id: str | None = None
    task_id: str | None = None


def get_parsing_context() -> AirflowParsingContext:
    """Neither DAG nor task: a file is imported once for all of its DAGs, also in workers, which keep it."""
    return AirflowParsingContext()


def is_venv_installed() -> bool:
    """Whether there is uv, virtualenv or venv."""
    return which("uv") is not None or which("virtualenv") is not None or find_spec("venv") is not None


def pod_mutation_hook(pod: Any) -> None:
    """Change a pod before it is started, as an installation of Airflow may: nothing is changed here."""
