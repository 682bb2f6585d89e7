"""The password of the database in a file (`database.password_file`), which is read again with each login.

So a password can change without a stop: connections that are open stay, and new ones use what is in the file then.
Source: docs/secrets.md, "New keys and passwords".
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from aiosched.db.server.dsn import address_of, with_password
from aiosched.errors import DatabaseUnreachable


@dataclass(frozen=True, slots=True)
class PasswordFile:
    """The file; `read` is also the callback with which asyncpg asks for the password."""

    path: Path

    def read(self) -> str:
        """What is in it now, without the line feed at its end. Raises DatabaseUnreachable if it cannot be read."""
        try:
            return self.path.read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "is not text"
            raise DatabaseUnreachable(
                f"The password of the database cannot be read: {self.path}: {reason}. Correct database.password_file."
            ) from None

    @contextlib.contextmanager
    def waiting_for_a_new_one(self, dsn: str) -> Iterator[None]:
        """Treat a refused password as a server that cannot be reached now: the new one may not be in the file yet."""
        try:
            yield
        except asyncpg.InvalidPasswordError as error:
            raise DatabaseUnreachable(
                f"PostgreSQL at {address_of(dsn)} refuses the password in {self.path}. Put the present one there."
            ) from error


def with_present_password(dsn: str, path: Path | None) -> str:
    """The address with what is in the file now; unchanged without one."""
    return dsn if path is None else with_password(dsn, PasswordFile(path).read())
