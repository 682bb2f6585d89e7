"""The base of every resource's models: instants in RFC 3339 UTC, values read from rows by attribute."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer, StringConstraints

from aiosched.web.views.health import Status


def _rfc3339(value: datetime) -> str:
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


Instant = Annotated[datetime, PlainSerializer(_rfc3339, return_type=str, when_used="json")]


class Resource(BaseModel):
    """The API's view of a row; built from a row with the same field names by `Resource.model_validate(row)`."""

    model_config = ConfigDict(from_attributes=True)


class PartStatus(Resource):
    """The status of one part of the system."""

    status: Status
    detail: str
    fix: str | None = None


# Text in addresses: without NUL, which PostgreSQL cannot store.
_TEXT: Final = r"^[^\x00]+$"
Name = Annotated[str, Path(max_length=250, pattern=_TEXT)]
RunRef = Annotated[
    str, Path(max_length=250, pattern=_TEXT, description="a run id, a logical date, `latest` or `latest-failed`")
]
MapIndex = Annotated[int, Query(ge=-1, lt=2**31, description="-1 for a task that is not mapped")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=250, pattern=_TEXT)]
Reason = Annotated[
    Text | None,
    Field(max_length=500, description="the reason, for the audit log"),
]


class Because(BaseModel):
    """The reason for a request."""

    reason: Reason = None


def _storable(value: dict[str, Any]) -> dict[str, Any]:
    """Refuse what PostgreSQL cannot store in JSON: NUL and lone surrogates, in keys and values at any depth."""
    waiting: list[Any] = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            waiting += (*each.keys(), *each.values())
        elif isinstance(each, list):
            waiting += each
        elif isinstance(each, str) and ("\0" in each or any("\ud800" <= c <= "\udfff" for c in each)):
            raise ValueError("has text that cannot be stored: a NUL character, or half of a surrogate pair")
        elif isinstance(each, float) and not math.isfinite(each):
            raise ValueError("has a number that JSON cannot represent")
    return value


JsonObject = Annotated[dict[str, Any], AfterValidator(_storable)]
