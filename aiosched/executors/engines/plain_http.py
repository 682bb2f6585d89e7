"""POST requests over plain HTTP/1.1, on connections that are kept open. httptools reads the answers.

Workers ask a server twice for each attempt. A client for everything (redirects, cookies, proxies, pools of any kind)
takes several times as much processor time for that. What needs TLS goes through httpx2 (api_client.py).
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import httptools

from aiosched.timeouts import silence_options

SILENCE: Final = 8.0  # seconds without a word of the other side's kernel, after which ours ends a connection
_PART: Final = 65_536  # bytes that are read at once
_NOT_IN_HEAD: Final = re.compile(r"[^\x20-\x7e]")  # what ends a line, and letters beyond ASCII

_Place = tuple[str, int]


class HttpAnswer(NamedTuple):
    """The status and the body of a response."""

    status: int
    body: bytes


class _NoHttp(Exception):
    """What has come is no answer, or what is to be sent no request."""


class PlainHttp:
    """A client. `timeout`: seconds for a connection, for what is sent, and for each part of an answer."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._idle: defaultdict[_Place, list[_HttpLine]] = defaultdict(list)

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        """Send a request and wait for the whole answer. Raises OSError, also TimeoutError, if there is none."""
        try:
            parts = urlsplit(url)
            place = parts.hostname or "", parts.port or 80
        except ValueError as error:
            raise ConnectionError(f"no address: {error}") from error
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        fields = {"Host": parts.netloc.rpartition("@")[2], **headers, "Content-Length": str(len(body))}
        lines = [f"POST {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
        if " " in target or any(map(_NOT_IN_HEAD.search, lines)):
            raise ConnectionError(f"no request: {target!r}, or a header of it, has a character that none may have")
        line = await self._connect(place)
        try:
            answer = await line.ask("\r\n".join([*lines, "", ""]).encode() + body)
        except (_NoHttp, httptools.HttpParserError) as error:
            line.abort()
            raise ConnectionError(f"the answer is cut off, or no HTTP: {error}") from error
        except BaseException:
            line.abort()
            self._drop(place)
            raise
        if line.is_reusable():
            self._idle[place].append(line)
        else:
            line.close()
        return answer

    def _drop(self, place: _Place) -> None:
        """Whatever a connection suffers from, others to the same place, which are as old, may suffer from, too."""
        for line in self._idle.pop(place, ()):
            line.abort()

    async def _connect(self, place: _Place) -> _HttpLine:
        """One that is open, or a new one."""
        while idle := self._idle[place]:
            if (line := idle.pop()).is_open():
                return line
            line.close()
        loop = asyncio.get_running_loop()
        reader = _Reader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        async with asyncio.timeout(self._timeout):
            transport, _ = await loop.create_connection(lambda: protocol, *place)
        for option in silence_options(SILENCE):
            transport.get_extra_info("socket").setsockopt(*option)
        return _HttpLine(reader, asyncio.StreamWriter(transport, protocol, reader, loop), self._timeout)

    async def close(self) -> None:
        """Close the connections on which nobody waits."""
        for idle in self._idle.values():
            for line in idle:
                line.close()
        self._idle.clear()


class _Reader(asyncio.StreamReader):
    """Knows how many bytes have come that nobody has read."""

    unread = 0

    def feed_data(self, data: bytes) -> None:  # type: ignore[override] # transports give bytes
        self.unread += len(data)
        super().feed_data(data)

    async def read(self, n: int = -1) -> bytes:
        data = await super().read(n)
        self.unread -= len(data)
        return data


class _HttpLine:
    """One connection: moves bytes between its socket and the parser, which calls the methods `on_…`."""

    def __init__(self, reader: _Reader, writer: asyncio.StreamWriter, timeout: float) -> None:
        self._reader, self._writer, self._timeout = reader, writer, timeout
        self._parser = httptools.HttpResponseParser(self)
        self._body, self._answers, self._is_reusable = bytearray(), list[HttpAnswer](), False

    async def ask(self, request: bytes) -> HttpAnswer:
        self._answers.clear()
        async with asyncio.timeout(self._timeout):
            self._writer.write(request)
            await self._writer.drain()
        while not self._answers:
            async with asyncio.timeout(self._timeout):
                data = await self._reader.read(_PART)
            if not data:
                raise _NoHttp("the connection was closed")
            self._parser.feed_data(data)
        return self._answers[0]

    def on_message_begin(self) -> None:
        if self._answers:
            raise _NoHttp("another answer than the one to what was asked")
        self._body.clear()

    def on_body(self, part: bytes) -> None:
        self._body += part

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200:  # what is before are notices
            self._is_reusable = self._parser.should_keep_alive()
            self._answers.append(HttpAnswer(status, bytes(self._body)))

    def is_reusable(self) -> bool:
        """Whether another request may follow."""
        return self._is_reusable

    def is_open(self) -> bool:
        """Whether nothing has come since: neither an end nor, as from proxies that give up, an answer to nothing."""
        return not (self._reader.unread or self._reader.at_eof() or self._writer.is_closing())

    def close(self) -> None:
        self._writer.close()

    def abort(self) -> None:
        self._writer.transport.abort()
