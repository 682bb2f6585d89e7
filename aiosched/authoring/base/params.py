"""Params as authors declare them: `Param(5, type="integer", minimum=1)`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from datetime import date, datetime
from typing import Any, Final

from aiosched.authoring.base.checks import fail
from aiosched.authoring.base.location import author_location
from aiosched.core.graph.params import check_value, find_schema_problem
from aiosched.core.graph.secret_params import holds_secrets
from aiosched.core.graph.spec import ParamSpec
from aiosched.core.values.masking import MASK
from aiosched.errors import ParamError


class _NotSet:
    def __repr__(self) -> str:
        return "NOTSET"


NOTSET: Final = _NotSet()


class Param:
    """A parameter of runs: its default, and the JSON schema of its values.

    Without a default every run needs a value, so the DAG cannot have a schedule.
    """

    def __init__(self, default: Any = NOTSET, description: str | None = None, **schema: Any) -> None:
        self.origin = author_location()
        nested = schema.pop("schema", None)
        self.schema: dict[str, Any] = {**(nested or {}), **schema}
        self.description = description
        self.value = default.isoformat() if isinstance(default, date | datetime) else default

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
        check_value(name, self.value, self.schema)
        return self.value

    def to_spec(self) -> ParamSpec:
        """The param as the scheduler stores it."""
        return ParamSpec(
            value=self.value if self.has_value else None,
            required=not self.has_value,
            description=self.description,
            json_schema=self.schema,
        )

    def __repr__(self) -> str:
        return f"Param({MASK if holds_secrets(self.schema) else self.value!r})"


class ParamsDict(MutableMapping[str, Any]):
    """Params by name. Reading gives values; plain values become `Param`s without a schema.

    `owner` says in errors whose they are, such as `DAG 'd'`. Raises ParamError for a param that cannot be used.
    """

    def __init__(self, params: Mapping[str, Any] | None = None, *, owner: str = "") -> None:
        self._owner = owner
        self._params: dict[str, Param] = {}
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

    def __delitem__(self, name: str) -> None:
        del self._params[name]

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
        return [name for name, param in self._params.items() if param.schema and holds_secrets(param.schema)]

    def dump(self) -> dict[str, Any]:
        """The default values by name."""
        return dict(self)

    def validate(self) -> dict[str, Any]:
        """The default values, checked; raises ParamError naming the first invalid one."""
        return {name: param.resolve(name) for name, param in self._params.items()}

    def __repr__(self) -> str:
        return f"ParamsDict({self._params!r})"


class DagParam:
    """A param of the DAG as an argument of tasks: its value in the run, filled in when the task starts."""

    def __init__(self, name: str) -> None:
        self.name = name

    def resolve(self, context: Mapping[str, Any]) -> Any:
        """The run's value of the param."""
        return context["params"][self.name]

    def __str__(self) -> str:
        """A template that reads the value, for use inside a longer template string."""
        return f"{{{{ params[{self.name!r}] }}}}"

    def __repr__(self) -> str:
        return f"DagParam({self.name!r})"
