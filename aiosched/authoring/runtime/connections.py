"""`Connection`: the address of an external service, and the login.

    Connection.get("sales")                 in a task, or at the top of a DAG file
    await Connection.aget("sales")          in an `async def` task
    "{{ conn.sales.host }}"                 in an argument of a task

The environment (`AIOSCHED_CONN_SALES`, then `AIRFLOW_CONN_SALES`: a URI or a JSON object) takes
precedence over the database. Once it is read, logs show `***` for its password and for extras with secret names.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from aiosched.authoring.runtime.lookups import CONNECTION, Accessor, LookupAnswer, alook_up, look_up, not_found
from aiosched.authoring.runtime.provider_hooks import hook_for
from aiosched.core.values.connections import ConnectionValue

_UNNAMED = "unnamed"
_log = logging.getLogger("aiosched.task")


class Connection(ConnectionValue):
    """A connection: its fields, `extra_dejson` (a dict), `get_uri()`; `get` and `aget` look one up.

    One can be made of fields or of a URI, `Connection(conn_id="sales", uri="postgres://…")`, and its fields can be
    changed: that changes nothing that is stored. A `host` or `schema` that a URI leaves out is an empty text.
    """

    def __init__(
        self,
        conn_id: str | None = None,
        conn_type: str | None = None,
        description: str | None = None,
        host: str | None = None,
        login: str | None = None,
        password: str | None = None,
        schema: str | None = None,
        port: int | str | None = None,
        extra: str | Mapping[str, Any] | None = None,
        uri: str | None = None,
    ) -> None:
        given = {
            "conn_type": conn_type or "", "description": description, "host": host, "login": login,
            "password": password, "schema": schema, "extra": extra,
            "port": (int(port) if port.strip() else None) if isinstance(port, str) else port,
        }  # fmt: skip
        if is_text := isinstance(extra, str) and not _is_json_object(extra):
            given["extra"] = None
        super().__init__(conn_id=conn_id or _UNNAMED, **given)  # type: ignore[arg-type] # checked there
        if is_text:
            self._set("extra", extra)
        if uri is not None:
            self.parse_from_uri(uri)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _set(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    @classmethod
    def from_uri(cls, conn_id: str, uri: str, *, description: str | None = None) -> Connection:
        """The connection that a URI describes. Raises ConfigError, which never quotes the URI."""
        return cls(conn_id=conn_id, description=description, uri=uri)

    def parse_from_uri(self, uri: str) -> None:
        """Replace the fields by those of `uri`, except the id and the description. Raises ConfigError."""
        found = ConnectionValue.from_uri(self.conn_id, uri)
        for field in fields(found):
            if field.name not in {"conn_id", "description"}:
                self._set(field.name, getattr(found, field.name))
        self._set("host", self.host or "")
        self._set("schema", self.schema or "")

    @classmethod
    def get(cls, conn_id: str) -> Connection:
        """The connection of that id. Raises NotFound, and DagError where nobody can be asked."""
        return _read(conn_id, look_up(CONNECTION, conn_id))

    @classmethod
    async def aget(cls, conn_id: str) -> Connection:
        """As `get`, for coroutines."""
        return _read(conn_id, await alook_up(CONNECTION, conn_id))

    @classmethod
    def get_connection_from_secrets(cls, conn_id: str) -> Connection:
        """Airflow's name of `get`."""
        return cls.get(conn_id)

    async def aget_uri(self) -> str:
        """As `get_uri`, for coroutines."""
        return self.get_uri()

    def get_hook(self, *, hook_params: Mapping[str, Any] | None = None) -> Any:
        """The hook that an installed provider names for this type; see provider_hooks.py."""
        return hook_for(self.conn_type, self.conn_id, hook_params or {})

    def test_connection(self) -> tuple[bool, str]:
        """Whether the provider's hook can connect, and what it says. Blocks; call it in a process of its own."""
        hook = self.get_hook()
        if not callable(test := getattr(hook, "test_connection", None)):
            return False, f"{type(hook).__name__} cannot test connections of the type {self.conn_type!r}."
        works, says = test()
        return bool(works), str(says)

    @property
    def extra_dejson(self) -> dict[str, Any]:
        """The extras as a dict; {} when there are none, with a warning in the log when they are no JSON object."""
        if self.extra and not _is_json_object(self.extra):
            _log.warning("the extra of the connection %s is no JSON object, so it is not read", self.conn_id)
            return {}
        return super().extra_dejson

    def get_extra_dejson(self, nested: bool = False) -> dict[str, Any]:
        """The extras as a dict. With `nested`, texts inside that are JSON are read too."""
        found = dict(self.extra_dejson)
        if nested:
            for key, value in found.items():
                if isinstance(value, str):
                    with contextlib.suppress(ValueError):
                        found[key] = json.loads(value)
        return found

    def get_password(self) -> str | None:
        """The password."""
        return self.password

    def set_password(self, value: str | None) -> None:
        """Change the password of this object."""
        self._set("password", value)

    def get_extra(self) -> str | None:
        """The extras as JSON text."""
        return self.extra

    def set_extra(self, value: str | None) -> None:
        """Change the extras of this object; `value` is JSON text."""
        self._set("extra", value)

    def to_dict(self, *, prune_empty: bool = False, validate: bool = True) -> dict[str, Any]:
        """All fields, secrets included; with `prune_empty` only those that are set."""
        names = ("conn_id", "conn_type", "description", "host", "login", "password", "schema", "port")
        found = {**{name: getattr(self, name) for name in names}, "extra": self.extra_dejson}
        if prune_empty:
            found = {name: value for name, value in found.items() if value not in (None, "", {})}
        if validate and found.get("conn_type") is None:
            found["conn_type"] = ""
        return found

    def as_json(self) -> str:
        """The fields that are set, except the id, as JSON text; the input of `from_json`. Contains the password."""
        found = self.to_dict(prune_empty=True)
        found.pop("conn_id", None)
        return json.dumps(found)

    @classmethod
    def from_json(cls, value: str, conn_id: str | None = None) -> Connection:
        """The connection of a JSON object of fields. Raises ConfigError."""
        return cls.from_fields(conn_id or _UNNAMED, json.loads(value))


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text or "{}"), dict)
    except ValueError:
        return False


def connection_access() -> Accessor:
    """`conn` of the context: `{{ conn.sales.host }}`."""
    return Accessor(CONNECTION, _connection)


def _read(conn_id: str, answer: LookupAnswer) -> Connection:
    if answer.value is None:
        raise not_found(CONNECTION, conn_id, answer)
    return _connection(conn_id, answer.value)


def _connection(conn_id: str, found: Any) -> Connection:
    read = Connection.from_text if isinstance(found, str) else Connection.from_fields
    connection = read(conn_id, found)
    connection.hide()
    return connection
