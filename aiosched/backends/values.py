"""Variables and connections as DAGs get them: from the first backend that has one, else from the database.

The environment stands between the two. It is that of the process which asks, so an answer says which of both it is.

Source: docs/secrets.md, "Backends".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from aiosched.backends.asking import NO_BACKENDS, Backends
from aiosched.backends.backend import Kind
from aiosched.core.values.connections import ConnectionValue
from aiosched.core.values.secret_names import EVERYTHING, Reader
from aiosched.db.crypto.keyring import Keyring
from aiosched.db.people.secrets import SecretStore
from aiosched.db.server.engine import Database


class Value(NamedTuple):
    """The text of a variable, or the fields of a connection; None if there is none. `backend` None: in the database.

    `is_secret`: a variable of the database that is one whatever its name is; what a backend has always is.
    """

    value: Any
    backend: str | None = None
    is_secret: bool = False

    def as_answer(self) -> dict[str, Any]:
        """The answer to a question, as JSON values."""
        more = {"backend": self.backend, "is_secret": self.is_secret or None}
        return {"value": self.value} | {name: value for name, value in more.items() if value is not None}


@dataclass(frozen=True, slots=True)
class SecretValues:
    """Reads for others. With `db` None there is no database."""

    db: Database
    keyring: Keyring
    backends: Backends = NO_BACKENDS

    async def look_up(self, kind: Kind, name: str, reader: Reader = EVERYTHING) -> Value:
        """What `reader` gets by that name.

        Raises SecretBackendError, OfAnotherTeam if a team may not read it, ConfigError if a backend has no connection
        there, and what SecretStore raises.
        """
        if (found := await look_up_in_backends(self.backends, kind, name, reader)) is not None:
            return found
        value, is_secret = await SecretStore(self.db, self.keyring).look_up(kind, name, reader)
        return Value(value, is_secret=is_secret)


async def look_up_in_backends(backends: Backends, kind: Kind, name: str, reader: Reader) -> Value | None:
    """The value in a backend; None if none has it."""
    found = await backends.find(kind, name, team=reader.team) if backends else None
    if found is None:
        return None
    value = found.text if kind == "variable" else ConnectionValue.from_text(name, found.text).as_fields()
    return Value(value, found.backend)
