"""The settings of one backend of secrets: where variables and connections are, besides the database.

Source: docs/secrets.md, "Backends".
"""

from __future__ import annotations

import json
import re
from typing import Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field, field_validator

BACKEND_KINDS: Final = ("files", "vault", "aws-secrets", "aws-parameters", "gcp")
BACKEND_PLUGINS: Final = "aiosched.secrets"  # the entry point group by which packages add others
_CLASS_PATH: Final = re.compile(r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")


class BackendSettings(BaseModel):
    """One backend: its kind, and the options of that kind, which the backend itself checks when it is opened."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow", frozen=True)

    kind: str = Field(description="files, vault, aws-secrets, aws-parameters, gcp, a plugin, or a class of Airflow")
    team_names: str | None = Field(default=None, description="names of a team's secrets, such as {team}/{name}")

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        if kind in BACKEND_KINDS or _CLASS_PATH.match(kind):
            return kind
        from importlib.metadata import entry_points

        known = (*BACKEND_KINDS, *sorted(entry_points(group=BACKEND_PLUGINS).names))
        if kind not in known:
            raise ValueError(f"{kind!r} is not a backend that is installed here: these are {', '.join(known)}")
        return kind

    @field_validator("team_names")
    @classmethod
    def _has_both(cls, text: str | None) -> str | None:
        if text is not None and (text.count("{team}"), text.count("{name}")) != (1, 1):
            raise ValueError("team_names must contain {team} and {name} once, such as {team}/{name}")
        if text is not None and re.search(r"\{(team|name)\}\{(team|name)\}", text):
            raise ValueError("team_names needs something between {team} and {name}, such as {team}/{name}")
        return text

    @property
    def options(self) -> dict[str, Any]:
        """The options of its kind."""
        return dict(self.model_extra or {})


def read_backends(value: Any) -> Any:
    """The list of tables; from the environment it is JSON. A text in the list is a kind without options."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = None
        if not isinstance(value, list):
            raise ValueError('must be a JSON list such as [{"kind": "files", "connections": "/run/secrets"}]')
    if not isinstance(value, list):
        return value
    return [{"kind": one} if isinstance(one, str) else one for one in value]


def shown_backends(value: Any) -> Any:
    """Only the kinds: the options of a backend may hold its login."""
    if not isinstance(value, list):
        return "***"
    return [one.kind if isinstance(one, BackendSettings) else "***" for one in value]
