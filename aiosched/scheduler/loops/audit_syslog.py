"""Sends the audit log to syslog (`audit.syslog`), after the commit of each entry.

It waits for nobody: a receiver that is away costs a pass of this loop a few seconds, is named once in the log, and gets
everything when it is back. Each minute it also stores how often something was refused.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from aiosched.core.audit.syslog import Receiver, framed, message_of, receiver_of
from aiosched.db.audit import unsent
from aiosched.db.audit.reading import AuditEntry
from aiosched.db.audit.repeated import write_down
from aiosched.db.server.engine import Database
from aiosched.scheduler.session.session import Session

logger: logging.Logger = logging.getLogger(__name__)

_AT_ONCE: Final = 200  # entries of one transaction
_PATIENCE: Final = 5.0  # seconds that connecting and sending may take
_REST: Final = 2.0  # seconds between two looks for new entries
REST_IF_AWAY: Final = 30.0
_REST_WITHOUT: Final = 60.0  # seconds between two passes if nothing is sent
_REST_OF_OTHERS: Final = 10.0


class AuditSyslog:
    """What one scheduler knows about its receiver. Each pass connects anew: so it notices that one has gone."""

    def __init__(self, address: str | None) -> None:
        self._receiver = None if not address else receiver_of(address)
        self._address = address
        self._is_wanted: bool | None = None  # as the database knows it; None: not told yet
        self._is_away = False

    async def send_some(self, session: Session) -> float | None:
        """One pass; returns how long to rest: None when there is no other pass."""
        if session.membership.draining:
            return None
        if 0 not in session.cache.partitions:  # its owner does it for all
            self._is_wanted = None
            return _REST_OF_OTHERS
        async with session.env.db.acquire(unhurried=True) as conn:
            await write_down(conn)
            if self._is_wanted is None:
                await (unsent.stop(conn) if self._receiver is None else unsent.want(conn))
                self._is_wanted = self._receiver is not None
        if self._receiver is None:
            return _REST_WITHOUT
        sent = await self._send(session.env.db, self._receiver)
        if sent is None:
            return REST_IF_AWAY
        return 0.0 if sent == _AT_ONCE else _REST

    async def _send(self, db: Database, receiver: Receiver) -> int | None:
        """How many entries were sent; None if the receiver is away."""
        async with db.transaction(unhurried=True) as conn:
            entries = await unsent.take(conn, _AT_ONCE)
            if not entries:
                return 0
            try:
                async with asyncio.timeout(_PATIENCE):
                    await send(receiver, [framed(_message(entry), receiver) for entry in entries])
            except (OSError, TimeoutError) as error:
                self._say_away(error)
                return None
            await unsent.forget(conn, [entry.id for entry in entries])
        if self._is_away:
            self._is_away = False
            logger.info("the audit log is sent to %s again", self._address)
        return len(entries)

    def _say_away(self, error: Exception) -> None:
        if not self._is_away:
            self._is_away = True
            logger.warning(
                "the audit log cannot be sent to %s (audit.syslog): %s; its entries wait in the database",
                self._address,
                str(error) or "it does not answer",
            )


def _message(entry: AuditEntry) -> bytes:
    return message_of(asdict(entry), host=socket.gethostname(), process=os.getpid())


async def send(receiver: Receiver, messages: Sequence[bytes]) -> None:
    """Send messages over a connection of their own. Raises OSError."""
    if receiver.kind == "tcp":
        _, writer = await asyncio.open_connection(receiver.host, receiver.port)
        try:
            writer.writelines(messages)
            await writer.drain()
        finally:
            writer.close()
        await writer.wait_closed()
        return
    loop = asyncio.get_running_loop()
    family, address = socket.AF_UNIX, receiver.path
    if receiver.kind == "udp":
        family, _, _, _, address = (await loop.getaddrinfo(receiver.host, receiver.port, type=socket.SOCK_DGRAM))[0]  # type: ignore[assignment]
    with socket.socket(family, socket.SOCK_DGRAM) as datagrams:
        datagrams.setblocking(False)
        datagrams.connect(address)
        for message in messages:
            await loop.sock_sendall(datagrams, message)
