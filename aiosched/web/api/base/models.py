"""The base of every resource's models: instants in RFC 3339 UTC, values read from rows by attribute."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Annotated, Any, ClassVar, Final, TypeVar

from fastapi import Path, Query
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from aiosched.core.values.instants import in_utc
from aiosched.core.values.json_bounds import find_problem
from aiosched.errors import did_you_mean
from aiosched.web.views.health import Status


def _rfc3339(value: datetime) -> str:
    return in_utc(value).isoformat().replace("+00:00", "Z")


Instant = Annotated[datetime, PlainSerializer(_rfc3339, return_type=str, when_used="json")]


def _storable_instant(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("it is not in the years 1 to 9999 in UTC: give another instant") from None


# An instant in a body, in UTC. Filters take any: what is outside these years is before or after every row.
GivenInstant = Annotated[AwareDatetime, AfterValidator(_storable_instant)]

_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")


def _day_or(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
    """A `date` for a date without a time."""
    return date.fromisoformat(value) if isinstance(value, str) and _DAY.fullmatch(value) else read(value)


# What is a day is a `date`: that whole day, in the time zone of the DAG that is meant (UTC without one).
_OrDay: Final = (
    WrapValidator(_day_or),
    PlainSerializer(lambda value: value, when_used="unless-none"),
    WithJsonSchema({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "string", "format": "date"}]}),
)
GivenDayOrInstant = Annotated[GivenInstant, *_OrDay]
FilterDayOrInstant = Annotated[AwareDatetime, *_OrDay]

T = TypeVar("T")

# A word of a row: a member of `T`, or the text as it is stored if another version of aiosched wrote it.
Stored = Annotated[
    T | str, Field(union_mode="left_to_right", description="A newer aiosched may have stored another value.")
]


# The version of a resource, for a change that is refused if somebody has changed it since.
Etag = Annotated[str, Field(description="its version: a change with `If-Match` and it, in quotes, needs it to hold")]


class Resource(BaseModel):
    """The API's view of a row; built from a row with the same field names by `Resource.model_validate(row)`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(from_attributes=True)


class PartStatus(Resource):
    """The status of one part of the system."""

    status: Status
    detail: str
    fix: str | None = None


# Text in addresses: without NUL, which PostgreSQL cannot store.
_TEXT: Final = r"^[^\x00]+$"
Name = Annotated[str, Path(max_length=250, pattern=_TEXT)]
RunRef = Annotated[
    str,
    Path(
        max_length=250,
        pattern=_TEXT,
        description="a run id, a logical date, `latest`, `latest-failed` or `latest-backfill`",
    ),
]
MapIndex = Annotated[int, Query(ge=-1, lt=2**31, description="-1 for a task that is not mapped")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=250, pattern=_TEXT)]
Reason = Annotated[
    Text | None,
    Field(max_length=500, description="the reason, for the audit log"),
]


class Body(BaseModel):
    """The base of every body of a request: a field that it does not have is refused, with the one probably meant."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, given: Any) -> Any:
        """Before other errors, since a misspelt field can be the cause of them."""
        known = [field.alias or name for name, field in cls.model_fields.items()]
        if isinstance(given, dict) and (unknown := [name for name in given if name not in known]):
            raise ValidationError.from_exception_data(
                cls.__name__, [_unknown(name, given[name], did_you_mean(str(name), known)) for name in unknown]
            )
        return given


def _unknown(name: str, value: Any, near: str) -> InitErrorDetails:
    kind = PydanticCustomError("extra_forbidden", "there is no such field.{near}", {"near": near})
    return InitErrorDetails(type=kind, loc=(name,), input=value)


class ReasonBody(Body):
    """The reason for a request."""

    reason: Reason = None


def _storable(value: dict[str, Any]) -> dict[str, Any]:
    """Refuse a JSON object out of bounds; the error names the place."""
    if (problem := find_problem(value, "it")) is not None:
        raise ValueError(str(problem))
    return value


JsonObject = Annotated[dict[str, Any], AfterValidator(_storable)]
