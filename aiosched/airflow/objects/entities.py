"""What tasks of Airflow 1.10 and 2 name as their inlets and outlets besides datasets. Nobody collects them here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass
class File:
    """A file."""

    url: str
    type_hint: str | None = None

    template_fields: ClassVar = ("url",)


@dataclass(kw_only=True)
class User:
    """A person."""

    email: str
    first_name: str | None = None
    last_name: str | None = None

    template_fields: ClassVar = ("email", "first_name", "last_name")


@dataclass(kw_only=True)
class Tag:
    """A class of data."""

    tag_name: str

    template_fields: ClassVar = ("tag_name",)


@dataclass(kw_only=True)
class Column:
    """A column of a table."""

    name: str
    data_type: str
    description: str | None = None
    tags: list[Tag] = field(default_factory=list)

    template_fields: ClassVar = ("name", "description", "data_type", "tags")


@dataclass(kw_only=True)
class Table:
    """A table."""

    database: str
    cluster: str
    name: str
    tags: list[Tag] = field(default_factory=list)
    description: str | None = None
    columns: list[Column] = field(default_factory=list)
    owners: list[User] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    type_hint: str | None = None

    template_fields: ClassVar = ("database", "cluster", "name", "tags", "description", "columns", "owners", "extra")
