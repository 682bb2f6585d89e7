"""Params as authors declare them: `Param(5, type="integer", minimum=1)`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from enum import Enum
from typing import Any, Final

from aiosched.authoring.base.checks import fail
from aiosched.authoring.base.location import Location, author_location
from aiosched.authoring.base.plain_values import is_json, strict_json
from aiosched.authoring.base.unknown import Unknown
from aiosched.core.graph.json_schema import find_schema_problem
from aiosched.core.graph.params import resolve_params
from aiosched.core.graph.secret_params import holds_secrets
from aiosched.core.graph.spec import ParamSpec
from aiosched.core.values.given_values import parts_of
from aiosched.core.values.masking import MASK
from aiosched.core.values.typed_json import MARK, VALUE, NotJson, without_marks
from aiosched.core.values.typed_objects import OBJECT
from aiosched.errors import ParamError

_SETS: Final = frozenset({"set", "frozenset"})


class _NotSet:
    def __repr__(self) -> str:
        return "NOTSET"


NOTSET: Final = _NotSet()


class Param:
    """A parameter of runs: its default, and the JSON schema of its values.

    Without a default every run needs a value, so the DAG cannot have a schedule.
    """

    def __init__(self, default: Any = NOTSET, description: str | None = None, **schema: Any) -> None:
        self.origin: Location | None = author_location()
        nested = schema.pop("schema", None)
        self.schema: dict[str, Any] = {**(nested or {}), **schema}
        self.description = description
        self.value = default

    @property
    def has_value(self) -> bool:
        """Whether there is a default."""
        return self.value is not NOTSET

    def find_problem(self) -> str | None:
        """The problem with the description or the schema, as a sentence; None if they can be used."""
        if not isinstance(self.description, str | None):
            return f"the description must be text, not {self.description!r}."
        return find_schema_problem(self.schema)

    def resolve(self, name: str = "value") -> Any:
        """The default, checked; raises ParamError naming the param when it is missing or does not match the schema."""
        if not self.has_value:
            raise ParamError(f"Param {name!r} has no default. Give Param(…) one.")
        try:
            spec = self.to_spec()
        except TypeError as error:
            raise ParamError(f"Param {name!r} cannot be stored: {error}.") from None
        resolve_params({name: spec}, {})
        return self.value

    def to_spec(self) -> ParamSpec:
        """The param as the scheduler stores it. Raises TypeError for a default that cannot be stored."""
        if not self.has_value:
            return ParamSpec(required=True, description=self.description, json_schema=self.schema)
        parts = _parts(self.value)
        value = without_marks(parts, long_integers=False)
        typed = None if value == parts else parts
        return ParamSpec(value=value, typed=typed, description=self.description, json_schema=self._full_schema())

    def _full_schema(self) -> dict[str, Any]:
        """The schema; with the members of an enum if it says nothing about the values."""
        if (
            not isinstance(self.value, Enum)
            or {"enum", "const", "$ref", "anyOf", "oneOf", "allOf"} & self.schema.keys()
        ):
            return self.schema
        members = [member.value for member in type(self.value)]
        nothing = [None] if "null" in self.schema.get("type", ()) else []
        return {**self.schema, "enum": members + nothing} if all(map(is_json, members)) else self.schema

    def __repr__(self) -> str:
        return f"Param({MASK if holds_secrets(self.schema) else self.value!r})"


def _parts(value: Any) -> Any:
    """A default as JSON with marks. Raises TypeError."""
    try:
        parts = parts_of(value, sys.modules.__getitem__)
        return value if parts is value else _stable(parts)
    except NotJson as error:
        try:
            return strict_json(value)
        except TypeError:
            raise error from None


def _stable(parts: Any) -> Any:
    """The same with sets in order, and bare names of classes: the module of a DAG file has another name elsewhere."""
    if isinstance(parts, list):
        return [_stable(part) for part in parts]
    if not isinstance(parts, dict):
        return parts
    found = {key: _stable(part) for key, part in parts.items()}
    if found.get(MARK) == OBJECT:
        return found | {"class": found["class"].rpartition(":")[2]}
    return found | {VALUE: sorted(found[VALUE], key=json.dumps)} if found.get(MARK) in _SETS else found


class ParamsDict(MutableMapping[str, Any]):
    """Params by name. Reading gives values; plain values become `Param`s without a schema.

    `owner` says in errors whose they are, such as `DAG 'd'`. Raises ParamError for a param that cannot be used.
    """

    def __init__(self, params: Mapping[str, Any] | None = None, *, owner: str = "") -> None:
        self._owner = owner
        self._params: dict[str, Param] = {}
        self._secrets: set[str] = set()
        source = params._params if isinstance(params, ParamsDict) else params or {}
        for name, value in source.items():
            self[name] = value

    def __getitem__(self, name: str) -> Any:
        value = self._params[name].value
        return None if value is NOTSET else value

    def __setitem__(self, name: str, value: Any) -> None:
        param = value if isinstance(value, Param) else Param(value)
        if (problem := param.find_problem()) is not None:
            of = f" of {self._owner}" if self._owner else ""
            raise fail(f"Param {name!r}{of}: {problem}", param.origin, kind=ParamError)
        self._params[name] = param
        (self._secrets.add if holds_secrets(param.schema) else self._secrets.discard)(name)

    def __delitem__(self, name: str) -> None:
        del self._params[name]
        self._secrets.discard(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def __len__(self) -> int:
        return len(self._params)

    def get_param(self, name: str) -> Param:
        """The declaration of the param `name`."""
        return self._params[name]

    def declared(self) -> Mapping[str, Param]:
        """All declarations by name."""
        return dict(self._params)

    def secret_names(self) -> list[str]:
        """The names of those that are secrets, or hold some (`format="password"`)."""
        return [name for name in self._params if name in self._secrets] if self._secrets else []

    def dump(self) -> dict[str, Any]:
        """The default values by name."""
        return dict(self)

    def validate(self) -> dict[str, Any]:
        """The default values, checked; raises ParamError naming the first invalid one."""
        return {name: param.resolve(name) for name, param in self._params.items()}

    def __repr__(self) -> str:
        return f"ParamsDict({self._params!r})"


class DagParam(Unknown):
    """A param of the DAG as an argument of tasks: its value in the run, filled in when the task starts."""

    def __init__(self, name: str) -> None:
        self._name = name

    def resolve(self, context: Mapping[str, Any]) -> Any:
        """The run's value of the param."""
        return context["params"][self._name]

    def _template(self) -> str:
        return f"{{{{ params[{self._name!r}] }}}}"

    def __repr__(self) -> str:
        return f"DagParam({self._name!r})"

    def _same(self, other: Unknown) -> bool:
        return isinstance(other, DagParam) and other._name == self._name
