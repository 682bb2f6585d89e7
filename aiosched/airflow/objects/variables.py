"""`airflow.models.Variable`: as aiosched's, and changes may be given a session, which they do not need."""

from __future__ import annotations

from typing import Any

from aiosched.authoring.runtime import variables
from aiosched.errors import NotFound


class Variable(variables.Variable):
    """Reads, sets and deletes variables from tasks. It has static methods only."""

    @staticmethod
    def set(
        key: str, value: Any, description: str | None = None, serialize_json: bool = False, session: object = None
    ) -> None:
        """As aiosched's."""
        variables.Variable.set(key, value, description, serialize_json)

    @staticmethod
    def update(key: str, value: Any, serialize_json: bool = False, session: object = None) -> None:
        """As aiosched's."""
        variables.Variable.update(key, value, serialize_json)

    @staticmethod
    def delete(key: str, session: object = None) -> int:  # type: ignore[override] # as in Airflow
        """Delete a variable from the database; returns how many there were."""
        try:
            variables.Variable.delete(key)
        except NotFound:
            return 0
        return 1
