"""The settings of one bundle: a source of DAG files, as a table `[[dags.bundles]]`.

Source: docs/bundles.md.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

_SETTINGS_OF: Final = {  # needed, allowed
    "folder": ({"path"}, {"path"}),
    "git": ({"url"}, {"url", "ref", "subfolder", "interval", "connection", "timeout"}),
    "archive": ({"url"}, {"url", "subfolder", "interval", "connection", "timeout"}),
}
_REMOTE_HELPER: Final = re.compile(r"^[A-Za-z0-9+.-]+::")


class BundleSettings(BaseModel):
    """One bundle. `name` is part of the names of its files."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,49}$", description="unique; part of the names of its files")
    kind: Literal["folder", "git", "archive"] = Field(description="where the files come from")
    path: Path | None = Field(default=None, description="the folder")
    url: str | None = Field(default=None, min_length=1, description="address of the repository or the zip archive")
    ref: str = Field(default="HEAD", pattern=r"^[A-Za-z0-9_][^\s:?*~^\\]*$", description="branch, tag or commit")
    subfolder: str = Field(default="", description="folder in it that has the DAG files")
    interval: float = Field(default=60.0, ge=1, description="seconds between two checks for a new version")
    timeout: float = Field(default=120.0, gt=0, description="time limit of a check and of a download, in seconds")
    connection: str | None = Field(default=None, min_length=1, description="id of the connection with the login")

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        needed, allowed = _SETTINGS_OF[self.kind]
        given = self.model_fields_set - {"name", "kind"}
        if missing := sorted(needed - given):
            raise ValueError(f"the bundle {self.name!r} needs {missing[0]}")
        if strange := sorted(given - allowed):
            raise ValueError(f"the bundle {self.name!r} of the kind {self.kind} has no {strange[0]}")
        if self.url is not None:
            _check_url(self.name, self.url)
        parts = self.subfolder.split("/")
        if self.subfolder and (
            self.subfolder.startswith("/") or {"", ".", ".."} & set(parts) or "\\" in self.subfolder
        ):
            raise ValueError(f"the bundle {self.name!r} needs a subfolder such as `team/dags`")
        return self

    @model_serializer(mode="wrap")
    def _as_it_was_given(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without what is not set, which other kinds would refuse: child processes read what is dumped."""
        return {name: value for name, value in dump(self).items() if name in self.model_fields_set}


def _check_url(name: str, url: str) -> None:
    if url.startswith("-") or _REMOTE_HELPER.match(url) or not url.isprintable():
        raise ValueError(f"the bundle {name!r} needs a url such as https://host/path")
    try:
        password = urlsplit(url).password
    except ValueError:
        raise ValueError(f"the bundle {name!r} needs a url such as https://host/path") from None
    if password is not None:
        raise ValueError(
            f"the bundle {name!r} has a password in its url: put it into a connection, and its id into connection"
        )


def read_bundles(value: Any) -> Any:
    """The list of tables; from the environment it is JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise ValueError('must be a JSON list such as [{"name": "team", "kind": "folder", "path": "dags"}]') from None


def no_name_twice(bundles: list[BundleSettings]) -> list[BundleSettings]:
    """Refuse two bundles with one name."""
    names = [bundle.name for bundle in bundles]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"two bundles have the name {twice!r}")
    return bundles


def shown_bundles(value: Any) -> Any:
    """The bundles as plain data, without what is not set."""
    if not isinstance(value, list):
        return value
    return [bundle.model_dump(mode="json") if isinstance(bundle, BundleSettings) else bundle for bundle in value]
