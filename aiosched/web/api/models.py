"""What every resource's models share: instants in RFC 3339 UTC, read from rows by attribute."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, PlainSerializer


def _rfc3339(value: datetime) -> str:
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


Instant = Annotated[datetime, PlainSerializer(_rfc3339, return_type=str, when_used="json")]


class Resource(BaseModel):
    """A thing as the API shows it; built from a row of the same field names by `Resource.model_validate(row)`."""

    model_config = ConfigDict(from_attributes=True)
