"""`DAG(access_control=…)`: what the author of a DAG gives to groups and teams, for this DAG only.

The shapes are Airflow's. Reading makes a viewer, everything else an operator: an author can give away no more than the
DAG, so neither secrets nor its deletion. Source: docs/access.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from aiosched.core.access.roles import Role

ACTIONS: Final[Mapping[str, Role]] = {
    "can_read": Role.VIEWER,
    "can_dag_read": Role.VIEWER,
    "can_edit": Role.OPERATOR,
    "can_dag_edit": Role.OPERATOR,
    "can_delete": Role.OPERATOR,
    "can_create": Role.OPERATOR,
}
_RESOURCES: Final = ("DAGs", "DAG Runs")


def read_control(control: Any) -> dict[str, str]:
    """The role (a word) for each name of `access_control`, sorted. Raises ValueError with what is wrong.

    `{"sales": {"can_read", "can_edit"}}`, or by resource: `{"sales": {"DAGs": {"can_read"}, "DAG Runs": …}}`.
    """
    if not isinstance(control, Mapping):
        raise ValueError(f"{control!r} is no dict: write {{'a team or group': {{'can_read', 'can_edit'}}}}")
    found: dict[str, str] = {}
    for name, given in sorted(control.items(), key=lambda item: str(item[0])):
        if not isinstance(name, str) or not name:
            raise ValueError(f"{name!r} is no name of a team or group")
        role = max(map(_role_of, _actions(name, given)), default=Role.NONE)
        if role is not Role.NONE:
            found[name] = role.word
    return found


def _actions(name: str, given: Any) -> Collection[Any]:
    if isinstance(given, str):
        return (given,)
    if isinstance(given, Mapping):
        if unknown := [each for each in given if each not in _RESOURCES]:
            raise ValueError(f"{name!r} has {unknown[0]!r}: write {' or '.join(map(repr, _RESOURCES))}")
        return [action for each in given.values() for action in _actions(name, each)]
    if isinstance(given, Collection):
        return given
    raise ValueError(f"{name!r} has {given!r}: write a set of actions, such as {{'can_read'}}")


def _role_of(action: Any) -> Role:
    if action not in ACTIONS:
        raise ValueError(f"{action!r} is no action on a DAG: write can_read or can_edit")
    return ACTIONS[action]
