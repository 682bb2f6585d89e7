"""Bodies that are made from requests: their fields are the options of the struct, with its defaults and limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from types import MappingProxyType
from typing import Annotated, Any, Final, TypeVar

from pydantic import Field, create_model

from aiosched.core.creation.backfills import Rerun
from aiosched.core.requests.options import NEEDED, Option, options
from aiosched.core.requests.requests import Request
from aiosched.core.timetables.days import DayOrInstant
from aiosched.web.api.base.models import Body, GivenDayOrInstant, GivenInstant, JsonObject, Reason, Text

B = TypeVar("B", bound=Body)
R = TypeVar("R", bound=Request)

# How the API reads the type of an option.
_TYPES: Final[Mapping[Any, Any]] = MappingProxyType(
    {
        bool: bool,
        int: int,
        float: float,
        str: Text,
        Sequence[str]: list[Text],
        Mapping[str, Any]: JsonObject,
        DayOrInstant: GivenDayOrInstant,
        datetime: GivenInstant,
        Rerun | str: Rerun,
    }
)
_SPELLED: Final = MappingProxyType({"first": "from_date", "final": "to_date"})


def with_options(kind: type[Request], *, without: Sequence[str] = ()) -> Callable[[type[B]], type[B]]:
    """Give a body the options of a request, but for those in `without`; fields that the body has itself stay."""

    def add(body: type[B]) -> type[B]:
        own = {*without, *body.model_fields, "key"}  # which is a header
        more: dict[str, Any] = {
            _SPELLED.get(each.name, each.name): _field(each) for each in options(kind) if each.name not in own
        }
        return create_model(body.__name__, __base__=body, __module__=body.__module__, __doc__=body.__doc__, **more)

    return add


def _field(option: Option) -> tuple[Any, Any]:
    """The type of a field, and its default."""
    default = ... if option.default is NEEDED else option.default
    if option.name == "reason":
        return Reason, default
    limits = {name: getattr(option.help, name) for name in ("ge", "le", "lt", "max_length")}
    type_ = _TYPES[option.type] | None if option.is_optional else _TYPES[option.type]
    given = {name: limit for name, limit in limits.items() if limit is not None}
    return (Annotated[type_, Field(**given)] if given else type_), default


def request_of(kind: type[R], body: Body | None, **more: Any) -> R:
    """The request of a body, if there is one; `more` are its options that the body does not have."""
    known = type(body).model_fields if body else {}
    names = {each.name: _SPELLED.get(each.name, each.name) for each in options(kind)}
    return kind(**{name: getattr(body, spelled) for name, spelled in names.items() if spelled in known}, **more)


def body_of(request: Request, *, without: Sequence[str] = ()) -> dict[str, Any]:
    """The body of the API for a request, but for the options in `without`; those with their default are left out."""
    return {
        _SPELLED.get(each.name, each.name): value.isoformat() if isinstance(value, date) else value
        for each in options(type(request))
        if each.name not in (*without, "key") and (value := getattr(request, each.name)) != each.default
    }
