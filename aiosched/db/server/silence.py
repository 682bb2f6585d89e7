"""Connections whose other side says nothing any more: the kernel gives them up, and statements on them have an end.

What stands between us and the server, a proxy or a pooler, may swallow what we say and acknowledge every packet: that
only a limit of a statement finds.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Any, Final

import asyncpg

from aiosched.db.server.dsn import normalize
from aiosched.timeouts import silence_options

_SILENCE: Final = 8.0  # seconds; fits into a lease of 15 s, the default
_LEAST_SILENCE: Final = 2.0
_BEYOND_LEASE: Final = 10.0  # seconds that a statement may take longer than a lease: slower ones are a rare thing
_CONNECT_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a connection may be silent before the kernel ends it, and how long a statement may take (None: any
    time), in seconds."""

    silence: float = _SILENCE
    statement: float | None = None


def limits_within(lease: float) -> Limits:
    """The limits of a scheduler with this lease, in seconds: it has new connections before the lease ends."""
    return Limits(min(_SILENCE, max(lease / 2, _LEAST_SILENCE)), lease + _BEYOND_LEASE)


def notice_silence(conn: Any, silence: float = _SILENCE) -> None:
    """Let the kernel end the connection after so many seconds in which the other side says nothing."""
    sock = conn._transport.get_extra_info("socket")
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    for option in silence_options(silence):
        sock.setsockopt(*option)


def limit_statements(conn: Any, seconds: float | None) -> None:
    """Let each later statement on an asyncpg connection, or a pooled one, raise TimeoutError after `seconds`."""
    conn = getattr(conn, "_con", conn)
    if conn._config.command_timeout != seconds:
        conn._config = conn._config._replace(command_timeout=seconds)


async def connect_for(what: str, dsn: str, **session: str) -> Any:
    """A connection of asyncpg for one job, such as a migration, whose statements may take any time.

    `what` is shown as `aiosched WHAT` in pg_stat_activity; `session` are parameters of the session.
    """
    names = {"application_name": f"aiosched {what}", **session}
    conn = await asyncpg.connect(normalize(dsn), timeout=_CONNECT_SECONDS, server_settings=names)
    notice_silence(conn)
    return conn
