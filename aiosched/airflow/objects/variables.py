"""`airflow.models.Variable`: as aiosched's, and changes may be given a session, which they do not need."""

from __future__ import annotations

import contextlib
from typing import Any

from aiosched.airflow.objects.sessions import is_test
from aiosched.authoring.runtime import variables
from aiosched.authoring.runtime.services import offering
from aiosched.errors import NotFound
from aiosched.lazy import provided


class Variable(variables.Variable):
    """Reads, sets and deletes variables from tasks; an object is what tests add to a session."""

    def __init__(self, key: str | None = None, val: Any = None, description: str | None = None, **_: Any) -> None:
        self.key, self.val, self.description = key, val, description

    def get_val(self) -> Any:
        """The value of this object."""
        return self.val

    def set_val(self, value: Any) -> None:
        """Change the value of this object."""
        self.val = value

    @staticmethod
    def set(
        key: str, value: Any, description: str | None = None, serialize_json: bool = False, session: object = None
    ) -> None:
        """As aiosched's; in a test also outside of tasks, as the other changes."""
        with _changed():
            variables.Variable.set(key, value, description, serialize_json)

    @staticmethod
    def setdefault(key: str, default: Any, description: str | None = None, deserialize_json: bool = False) -> Any:
        """As aiosched's."""
        with _changed():
            return variables.Variable.setdefault(key, default, description, deserialize_json)

    @staticmethod
    def update(key: str, value: Any, serialize_json: bool = False, session: object = None) -> None:
        """As aiosched's."""
        with _changed():
            variables.Variable.update(key, value, serialize_json)

    @staticmethod
    def delete(key: str, session: object = None) -> int:  # type: ignore[override] # as in Airflow
        """Delete a variable from the database; returns how many there were."""
        try:
            with _changed():
                variables.Variable.delete(key)
        except NotFound:
            return 0
        return 1


def _changed() -> contextlib.AbstractContextManager[object]:
    return offering(provided("services_of_tests")()) if is_test() else contextlib.nullcontext()
