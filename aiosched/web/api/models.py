"""What every resource's models share: instants in RFC 3339 UTC, read from rows by attribute."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Final

from fastapi import Path, Query
from pydantic import BaseModel, ConfigDict, PlainSerializer


def _rfc3339(value: datetime) -> str:
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


Instant = Annotated[datetime, PlainSerializer(_rfc3339, return_type=str, when_used="json")]


class Resource(BaseModel):
    """A thing as the API shows it; built from a row of the same field names by `Resource.model_validate(row)`."""

    model_config = ConfigDict(from_attributes=True)


# What addresses may hold: text without NUL, which PostgreSQL cannot store.
_TEXT: Final = r"^[^\x00]+$"
Name = Annotated[str, Path(max_length=250, pattern=_TEXT)]
RunRef = Annotated[
    str, Path(max_length=250, pattern=_TEXT, description="a run id, a logical date, `latest` or `latest-failed`")
]
MapIndex = Annotated[int, Query(ge=-1, lt=2**31, description="-1 for a task that is not mapped")]
