"""Priority weights that an author computes: `weight_rule=MyStrategy()`.

    class LastTriesFirst(PriorityWeightStrategy):
        def get_weight(self, ti):
            return 10 * ti.try_number

The scheduler never runs authors' code, so the weights of a task are computed where its file is parsed: one for each
try that can be foreseen. Source: the semantics reference, section 18.2.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from aiosched.authoring.base.checks import fail
from aiosched.core.graph.weights import WeightRule, capped
from aiosched.errors import DagError

if TYPE_CHECKING:
    from aiosched.authoring.base.location import Location

_LEAST_TRIES: Final = 16  # whose weights are stored: a cleared task has more tries than retries
_MOST_TRIES: Final = 64


class PriorityWeightStrategy(ABC):
    """The base class of strategies, defined in a DAG file, in a module beside it or in a plugin."""

    @abstractmethod
    def get_weight(self, ti: PlannedTry) -> int:
        """The weight of a try: a whole number, of which the highest goes first.

        `ti` has what is known before a run exists: `task`, `task_id`, `dag_id`, `try_number` (1 for the first),
        `max_tries` (the number of retries), `map_index` (-1), `priority_weight`, `pool`, `queue` and `operator`.
        """

    def serialize(self) -> dict[str, Any]:
        """What distinguishes equal strategies; for subclasses that are written for Airflow. Not used here."""
        return {}

    @classmethod
    def deserialize(cls, data: Mapping[str, Any]) -> PriorityWeightStrategy:
        """The strategy with these arguments; see `serialize`."""
        return cls(**data)


class PlannedTry:
    """A try that may come: what strategies get to see. `task` is a BaseOperator."""

    def __init__(self, task: Any, try_number: int) -> None:
        self.task = task
        self.try_number = try_number
        self.map_index = -1
        self.task_id: str = task.task_id
        self.dag_id: str = task.dag_id
        self.max_tries: int = task.retries
        self.priority_weight: int = task.priority_weight
        self.pool: str = task.pool
        self.queue: str | None = task.queue
        self.operator: str = task.task_type


def weight_rule_of(value: object, where: Location | None) -> str | PriorityWeightStrategy:
    """What `weight_rule=` means: the name of a rule, or a strategy, its class or the path of its class.

    Raises DagError for anything else.
    """
    if isinstance(value, str) and "." in value:
        value = _imported(value, where)
    if isinstance(value, type) and issubclass(value, PriorityWeightStrategy):
        return value()
    if isinstance(value, PriorityWeightStrategy):
        return value
    if not isinstance(value, str):
        raise fail(f"weight_rule={value!r} is wrong: give the name of a rule, or a PriorityWeightStrategy.", where)
    try:
        return WeightRule.parse(value).value
    except DagError as error:
        raise fail(str(error), where) from None


def weights_of(task: Any) -> tuple[int, ...]:
    """The weights of a task with a strategy, by try; the last one is also that of all later tries. Empty without one.

    Raises DagError for a strategy that fails, or that returns something else than a whole number.
    """
    strategy = task.weight_rule
    if not isinstance(strategy, PriorityWeightStrategy):
        return ()
    tries = min(max(task.retries + 1, _LEAST_TRIES), _MOST_TRIES)
    found = [_weight(strategy, PlannedTry(task, number)) for number in range(1, tries + 1)]
    while len(found) > 1 and found[-1] == found[-2]:
        found.pop()
    return tuple(found)


def _weight(strategy: PriorityWeightStrategy, planned: PlannedTry) -> int:
    name = type(strategy).__name__
    try:
        weight = strategy.get_weight(planned)
    except Exception as error:
        raise planned.task.fail(
            f"The weight strategy {name} of task {planned.task_id!r} failed for try {planned.try_number}: {error!r}. "
            "It is asked when the file is parsed, so it can use only what is known before a run exists."
        ) from error
    if isinstance(weight, bool) or not isinstance(weight, int):
        raise planned.task.fail(
            f"The weight strategy {name} of task {planned.task_id!r} returned {weight!r}. Return a whole number."
        )
    return capped(weight)


def _imported(path: str, where: Location | None) -> object:
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise fail(f"weight_rule={path!r} cannot be imported ({error}). Give the strategy itself.", where) from None
