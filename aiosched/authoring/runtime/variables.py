"""`Variable`: settings of DAGs that are stored outside their files.

    Variable.get("region")                      in a task, or at the top of a DAG file; the text
    await Variable.aget("limits", deserialize_json=True)   in an `async def` task
    "{{ var.value.region }}"                    in an argument of a task

The environment (`AIOSCHED_VAR_REGION`, then `AIRFLOW_VAR_REGION`) takes precedence over the
database. Once it is read, logs show `***` for a value with a secret key (`api_key`, `db_password` …).
"""

from __future__ import annotations

import json
from typing import Any, Final

from aiosched.authoring.runtime.lookups import VARIABLE, Accessor, LookupAnswer, alook_up, in_a_task, look_up, not_found
from aiosched.authoring.runtime.xcom_values import data_parts, read_data
from aiosched.core.values.masking import secrets
from aiosched.core.values.typed_json import NotJson
from aiosched.errors import AioschedError, VariableNotJson

_MISSING: Final = object()


class Variable:
    """Reads, sets and deletes variables from tasks; see the module. It has static methods only."""

    @staticmethod
    def get(key: str, default: Any = _MISSING, deserialize_json: bool = False, *, default_var: Any = _MISSING) -> Any:
        """The text of a variable, or with `deserialize_json` what its JSON holds.

        Without `default` (or Airflow's `default_var`) a missing one raises NotFound. Where nobody can be asked (neither
        in a task, nor in a DAG file that aiosched imports) it raises DagError, even with a default.
        """
        return _read(key, look_up(VARIABLE, key), default_var if default is _MISSING else default, deserialize_json)

    @staticmethod
    async def aget(key: str, default: Any = _MISSING, deserialize_json: bool = False) -> Any:
        """As `get`, for coroutines."""
        return _read(key, await alook_up(VARIABLE, key), default, deserialize_json)

    @staticmethod
    def set(key: str, value: Any, description: str | None = None, serialize_json: bool = False) -> None:
        """Store `value` as text, or as JSON with `serialize_json`. An environment variable still takes precedence."""
        in_a_task(VARIABLE, key, "set").call(VARIABLE.name, **_setting(key, value, description, serialize_json))

    @staticmethod
    async def aset(key: str, value: Any, description: str | None = None, serialize_json: bool = False) -> None:
        """As `set`, for coroutines."""
        services = in_a_task(VARIABLE, key, "set")
        await services.acall(VARIABLE.name, **_setting(key, value, description, serialize_json))

    @staticmethod
    def setdefault(key: str, default: Any, description: str | None = None, deserialize_json: bool = False) -> Any:
        """The variable, as `get`; a missing one is stored with `default` first, which cannot be None."""
        found = Variable.get(key, None, deserialize_json)
        if found is not None:
            return found
        if default is None:
            raise ValueError(f"The variable {key!r} is missing, and setdefault has no value for it: give one.")
        Variable.set(key, default, description, serialize_json=deserialize_json)
        return default

    @staticmethod
    def update(key: str, value: Any, serialize_json: bool = False) -> None:
        """As `set`, for a variable that exists. Raises NotFound."""
        Variable.get(key)
        Variable.set(key, value, serialize_json=serialize_json)

    @staticmethod
    def delete(key: str) -> None:
        """Delete a variable from the database; raises NotFound."""
        in_a_task(VARIABLE, key, "deleted").call(VARIABLE.name, delete=key)

    @staticmethod
    async def adelete(key: str) -> None:
        """As `delete`, for coroutines."""
        await in_a_task(VARIABLE, key, "deleted").acall(VARIABLE.name, delete=key)


class VariableAccess(dict[str, Accessor]):
    """`var` of the context: `{{ var.value.region }}` is the text, `{{ var.json.limits.cpu }}` is read from JSON.

    In code it is a mapping: `context["var"]["value"].get("region")`.
    """

    def __init__(self) -> None:
        self.value: Accessor = Accessor(VARIABLE, _text)
        self.json: Accessor = Accessor(VARIABLE, _data)
        super().__init__(value=self.value, json=self.json)


def _read(key: str, answer: LookupAnswer, default: Any, deserialize_json: bool) -> Any:
    if answer.value is None:
        if default is _MISSING:
            raise not_found(VARIABLE, key, answer)
        return default
    return _data(key, answer.value) if deserialize_json else _text(key, answer.value)


def _text(key: str, text: str) -> str:
    secrets.register_named(key, text)
    return text


def _data(key: str, text: str) -> Any:
    try:
        return read_data(json.loads(_text(key, text)))
    except ValueError as error:
        where = f"line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise VariableNotJson(f"The variable {key!r} is not JSON ({where}): correct it, or read it as text.") from None


def _setting(key: str, value: Any, description: str | None, serialize_json: bool) -> dict[str, Any]:
    try:
        text = json.dumps(data_parts(value)) if serialize_json else str(value)
    except NotJson as error:
        raise AioschedError(f"The variable {key!r} cannot be JSON: {error}.") from None
    secrets.register_named(key, text)
    return {"set": key, "value": text, "description": description}
