"""A connection: where a service is and how to log in there; as fields, as a URI and as JSON.

The URI form is Airflow's, so that the same `…_CONN_X` variables work:

    postgres://user:p%40ss@db.example.com:5432/sales?sslmode=require
    http://https://api.example.com/v1          the host is "https://api.example.com"
    aws://?__extra__=%7B%22region%22%3A...     extras that a query cannot hold, as JSON

Pure values; they are stored by db/people/secrets.py and looked up by authoring/runtime/connections.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, quote, unquote, urlencode

from aiosched.core.values.masking import MASK, secrets
from aiosched.errors import ConfigError

C = TypeVar("C", bound="ConnectionValue")

_EXTRA: Final = "__extra__"  # the query key of extras that are not just strings by name
_NAME: Final = re.compile(r"^[\w.:()#-]{1,250}$")
_SCHEME: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+._-]*)://")
_AUTHORITY: Final = re.compile(
    r"^(?:(?P<login>[^:@/?#]*)(?::(?P<password>[^/?#]*))?@)?(?P<host>\[[^\]@]*\]|[^:@/?#]*)(?::(?P<port>[0-9]{0,9}))?$"
)
_TYPES: Final[Mapping[str, Any]] = {"port": int, "extra": (str, Mapping)}
_PLACE: Final = frozenset({"conn_type", "host", "port", "schema", "extra"})
_SYNONYMS: Final = {"postgresql": "postgres"}


@dataclass(frozen=True, kw_only=True, repr=False)
class ConnectionValue:
    """A connection. `extra` is the text of a JSON object (or a dict, kept as that); `port` 1 to 65535.

    Empty values become None. Raises ConfigError for invalid values. Its `repr` and `str` show no secrets.
    """

    conn_id: str
    conn_type: str = ""
    host: str | None = None
    login: str | None = None
    password: str | None = None
    port: int | None = None
    schema: str | None = None
    extra: str | None = None  # normal JSON text, so that equal connections are equal
    description: str | None = None

    def __post_init__(self) -> None:
        if not _NAME.match(self.conn_id):
            raise ConfigError(
                f"{self.conn_id!r} cannot be the name of a connection: use letters, digits and _ . - : ( ) #, "
                "at most 250."
            )
        if self.port is not None and not 1 <= self.port <= 65535:
            raise ConfigError(f"Connection {self.conn_id!r}: a port is 1 to 65535, not {self.port}.")
        extras = self.extra if isinstance(self.extra, Mapping) else _decoded(self.extra or "{}")
        if not isinstance(extras, Mapping):
            raise ConfigError(f"""Connection {self.conn_id!r}: extra must be a JSON object such as '{{"key": 1}}'.""")
        fixed = {name: getattr(self, name) or None for name in ("host", "login", "password", "schema", "description")}
        fixed |= {"conn_type": normal_type(self.conn_type), "extra": json.dumps(extras) if extras else None}
        for name, value in fixed.items():
            object.__setattr__(self, name, value)  # the class is frozen

    @property
    def extra_dejson(self) -> dict[str, Any]:
        """The extras as a dict; {} when there are none."""
        found = _decoded(self.extra) if self.extra else {}
        return found if isinstance(found, dict) else {}

    def get_uri(self) -> str:
        """The URI form; `from_uri` of it gives an equal connection. Contains the password."""
        host, protocol = self.host or "", ""
        if "://" in host:
            protocol, host = host.split("://", 1)
            protocol += "://"
        parts = [f"{self.conn_type.replace('_', '-')}://", protocol]
        if self.login is not None or self.password is not None:
            password = "" if self.password is None else f":{quote(self.password, safe='')}"
            parts.append(f"{quote(self.login or '', safe='')}{password}@")
        parts.append(host if host.startswith("[") else quote(host, safe=""))
        if self.port is not None:
            parts.append(f":{self.port}")
        if self.schema:
            parts.append(f"/{quote(self.schema, safe='')}")
        if self.extra and self.extra_dejson:
            parts.append(f"{'' if self.schema else '/'}?{self._query()}")
        return "".join(parts)

    def _query(self) -> str:
        extras = self.extra_dejson
        plain = all(isinstance(value, str) for value in extras.values()) and _EXTRA not in extras
        return urlencode(extras if plain else {_EXTRA: json.dumps(extras)})

    @classmethod
    def from_uri(cls: type[C], conn_id: str, uri: str, *, description: str | None = None) -> C:
        """The connection that a URI describes. Raises ConfigError, which never quotes the URI."""
        scheme = _SCHEME.match(uri)
        if scheme is None:
            raise ConfigError(
                f"Connection {conn_id!r}: its URI does not begin with a type. "
                "Write it as type://login:password@host:port/schema?extra=value, with %-signs for special characters."
            )
        rest, query = _split(uri[scheme.end() :], "?")
        protocol = _SCHEME.match(rest)
        where, schema = _split(rest[protocol.end() :] if protocol else rest, "/")
        parts = _AUTHORITY.match(where)
        if parts is None:
            raise ConfigError(
                f"Connection {conn_id!r}: its URI has no readable host and port. "
                "Special characters in login and password are written with %-signs, such as %40 for @."
            )
        host = unquote(parts["host"])
        extras: dict[str, Any] = dict(parse_qsl(query or "", keep_blank_values=True))
        return cls(
            conn_id=conn_id,
            conn_type=scheme[1],
            host=(protocol[0] if protocol else "") + host or None,
            login=None if parts["login"] is None else unquote(parts["login"]),
            password=None if parts["password"] is None else unquote(parts["password"]),
            port=int(parts["port"]) if parts["port"] else None,
            schema=unquote(schema) if schema else None,
            extra=extras.get(_EXTRA) or (json.dumps(extras) if extras else None),
            description=description,
        )

    @classmethod
    def from_text(cls: type[C], conn_id: str, text: str) -> C:
        """From an environment variable: a URI, or a JSON object of fields. Raises ConfigError."""
        text = text.strip()
        if not text.startswith("{"):
            return cls.from_uri(conn_id, text)
        document = _decoded(text)
        if not isinstance(document, dict):
            raise ConfigError(f"Connection {conn_id!r}: its value is neither a URI nor a JSON object.")
        return cls.from_fields(conn_id, document)

    @classmethod
    def from_fields(cls: type[C], conn_id: str, document: Mapping[str, Any]) -> C:
        """From a JSON object of fields (`extra` a text or an object), or one with `uri`. Raises ConfigError."""
        known = {field.name for field in fields(cls)} - {"conn_id"}
        given = {name: value for name, value in document.items() if value is not None and name != "conn_id"}
        if isinstance(uri := given.pop("uri", None), str):
            return cls.from_uri(conn_id, uri, description=given.get("description"))
        if unknown := sorted(given.keys() - known):
            raise ConfigError(
                f"Connection {conn_id!r} has no field {', '.join(unknown)}; it has {', '.join(sorted(known))}."
            )
        if isinstance(given.get("port"), str):
            given["port"] = int(given["port"]) if given["port"].isdecimal() else 0
        wrong = [name for name, value in given.items() if not isinstance(value, _TYPES.get(name, str))]
        if wrong:
            raise ConfigError(f"Connection {conn_id!r}: {', '.join(wrong)} must be text (port a number).")
        return cls(conn_id=conn_id, **given)

    def as_fields(self) -> dict[str, Any]:
        """All fields that are set, except the id, secrets included; the input of `from_fields`."""
        every = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "conn_id"}
        return {name: value for name, value in every.items() if value}

    def masked(self: C) -> C:
        """The same connection to display: password and secret extras are `***`."""
        extras = secrets.redact_value(self.extra_dejson)
        password = None if self.password is None else MASK
        return replace(self, password=password, extra=json.dumps(extras) if extras else None)

    def changed_fields(self, new: ConnectionValue) -> list[str]:
        """The names of the fields that `new` has otherwise, in their order."""
        return [field.name for field in fields(self) if getattr(self, field.name) != getattr(new, field.name)]

    def sent_elsewhere(self, new: ConnectionValue) -> list[str]:
        """The fields of `new` that say another place, or another way there, for the secrets of this connection.

        All of `extra` counts: what a hook takes from it (an endpoint, a proxy, whether a certificate is checked) is
        known to the hook only.
        """
        return [name for name in self.changed_fields(new) if name in _PLACE]

    def secret_fields(self) -> list[str]:
        """The fields that hold what `masked` hides."""
        shown = self.masked()
        return [name for name in ("password", "extra") if getattr(shown, name) != getattr(self, name)]

    def hide(self) -> None:
        """Register its password and secret extras with this process's Redactor."""
        secrets.register(self.password or "")
        secrets.register_named("", self.extra or "")

    def __repr__(self) -> str:
        return f"<Connection {self.conn_id} {self.masked().get_uri().replace(quote(MASK, safe=''), MASK)}>"

    def __str__(self) -> str:
        return self.conn_id


def normal_type(conn_type: str) -> str:
    """`postgresql` is `postgres`, `google-cloud` is `google_cloud`: lower case with underscores."""
    name = conn_type.lower().replace("-", "_")
    return _SYNONYMS.get(name, name)


def _split(text: str, mark: str) -> tuple[str, str | None]:
    before, found, after = text.partition(mark)
    return before, after if found else None


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
