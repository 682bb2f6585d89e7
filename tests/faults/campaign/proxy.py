"""A TCP proxy between one scheduler and PostgreSQL, to break what passes through it.

It can delay, fall silent in one direction, reset all connections, and cut a connection at a
commit: before the commit was forwarded, after it was and before any answer, or when the server
has answered and the client has not heard it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from tests.faults.campaign.wire import Commits, Message, Splitter

_READ = 65_536


class Cut(StrEnum):
    """Where a connection is cut at a commit."""

    BEFORE = "before"  # the server never hears of it
    AFTER = "after"  # the server has it, and loses the client before it answers
    ANSWERED = "answered"  # the server has committed, the client does not hear it


class Silence(StrEnum):
    """Which direction is not forwarded any more, while connections stay open."""

    NONE = "none"
    TO_SERVER = "to the server"
    TO_CLIENT = "to the client"


Decide = Callable[[str], Cut | None]  # gets the application name of the connection


def _never(application: str) -> Cut | None:
    return None


@dataclass
class Proxy:
    """Listens on 127.0.0.1:`port` and forwards to `target` (the path of a Unix socket). Use it with `async with`."""

    target: str
    decide: Decide = _never  # asked at every commit
    delay: float = 0.0  # seconds that every read is held back
    port: int = 0
    cuts: Counter[Cut] = field(default_factory=Counter)
    commits: int = 0
    _silence: Silence = Silence.NONE
    _links: set[_Link] = field(default_factory=set)
    _server: asyncio.Server | None = None
    _speech: asyncio.Event = field(default_factory=asyncio.Event)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        self._speech.set()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        self.reset()
        while self._links:
            await asyncio.gather(*(link.ended.wait() for link in list(self._links)))

    @property
    def connections(self) -> int:
        return len(self._links)

    def reset(self) -> None:
        """Reset every connection, towards both ends."""
        self.silence(Silence.NONE)
        for link in list(self._links):
            link.cut()

    def silence(self, direction: Silence) -> None:
        """Forward nothing in `direction` until told otherwise. What was held back is then forwarded."""
        self._silence = direction
        self._speech.set()
        if direction is not Silence.NONE:
            self._speech = asyncio.Event()

    async def passage(self, direction: Silence) -> None:
        """Wait while `direction` is silenced, and for the delay."""
        while self._silence is direction:
            await self._speech.wait()
        if self.delay:
            await asyncio.sleep(self.delay)

    async def _serve(self, reader: asyncio.StreamReader, side_journal: asyncio.StreamWriter) -> None:
        try:
            server = await asyncio.open_unix_connection(self.target)
        except OSError:
            _reset(side_journal)
            return
        link = _Link(self, (reader, side_journal), server)
        self._links.add(link)
        try:
            await link.run()
        finally:
            self._links.discard(link)
            link.ended.set()


_Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Link:
    """One connection of a client with its connection to the server."""

    def __init__(self, proxy: Proxy, client: _Pair, server: _Pair) -> None:
        self._proxy = proxy
        self._from_client, self._to_client = client
        self._from_server, self._to_server = server
        self._commits = Commits()
        self._swallow = False  # cut when the server has answered
        self.ended = asyncio.Event()

    async def run(self) -> None:
        """Forward until one side ends."""
        pumps = {asyncio.ensure_future(self._upstream()), asyncio.ensure_future(self._downstream())}
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            self.cut()

    def cut(self) -> None:
        """Reset both ends."""
        _reset(self._to_client)
        _reset(self._to_server)

    async def _upstream(self) -> None:
        splitter = Splitter(opening=True)
        with contextlib.suppress(OSError):
            while data := await self._from_client.read(_READ):
                await self._proxy.passage(Silence.TO_SERVER)
                if not await self._forward(splitter.feed(data)):
                    return

    async def _forward(self, messages: list[Message]) -> bool:
        """Send messages on to the server; False when the connection is to be cut now."""
        pending = bytearray()
        for message in messages:
            cut = None
            if self._commits.client_says(message):
                self._proxy.commits += 1
                cut = self._proxy.decide(self._commits.application)
            if cut is not None:
                self._proxy.cuts[cut] += 1
                if cut is Cut.BEFORE:
                    return False
                self._swallow = cut is Cut.ANSWERED
            pending += message.raw
            if cut is Cut.AFTER:
                self._to_server.write(pending)
                await self._to_server.drain()
                return False
        self._to_server.write(pending)
        await self._to_server.drain()
        return True

    async def _downstream(self) -> None:
        splitter: Splitter | None = None
        with contextlib.suppress(OSError):
            while data := await self._from_server.read(_READ):
                await self._proxy.passage(Silence.TO_CLIENT)
                if splitter is None and data not in (b"N", b"S"):  # not the answer to a question for TLS
                    splitter = Splitter()
                if splitter is not None:
                    answered = [self._commits.server_says(message) for message in splitter.feed(data)]
                    if self._swallow:
                        if any(answered):
                            return
                        continue
                self._to_client.write(data)
                await self._to_client.drain()


def _reset(side_journal: asyncio.StreamWriter) -> None:
    """Close with RST: the other end learns at once, and nothing buffered is sent."""
    sock = side_journal.get_extra_info("socket")
    if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    side_journal.transport.abort()
