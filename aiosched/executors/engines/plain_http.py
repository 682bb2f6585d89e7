"""POST requests over plain HTTP/1.1, on connections that are kept open. The protocol is h11's.

Workers ask a server twice for each attempt. A client for everything (redirects, cookies, proxies, pools of any kind)
takes several times as much processor time for that. What needs TLS goes through httpx2 (api_client.py).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import h11

from aiosched.timeouts import silence_options

SILENCE: Final = 8.0  # seconds without a word of the other side's kernel, after which ours ends a connection
_PART: Final = 65_536  # bytes that are read at once

_Place = tuple[str, int]


class HttpAnswer(NamedTuple):
    """The status and the body of a response."""

    status: int
    body: bytes


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
        line = await self._connect(place)
        try:
            answer = await line.ask(h11.Request(method="POST", target=target, headers=[*fields.items()]), body)
        except h11.ProtocolError as error:
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
        async with asyncio.timeout(self._timeout):
            reader, writer = await asyncio.open_connection(*place)
        for option in silence_options(SILENCE):
            writer.get_extra_info("socket").setsockopt(*option)
        return _HttpLine(reader, writer, self._timeout)

    async def close(self) -> None:
        """Close the connections on which nobody waits."""
        for idle in self._idle.values():
            for line in idle:
                line.close()
        self._idle.clear()


class _HttpLine:
    """One connection: moves bytes between its socket and the state machine of the protocol."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, timeout: float) -> None:
        self._reader, self._writer, self._timeout = reader, writer, timeout
        self._protocol = h11.Connection(h11.CLIENT)

    async def ask(self, request: h11.Request, body: bytes) -> HttpAnswer:
        protocol = self._protocol
        parts = [protocol.send(request), protocol.send(h11.Data(data=body)), protocol.send(h11.EndOfMessage())]
        async with asyncio.timeout(self._timeout):
            self._writer.write(b"".join(part for part in parts if part))
            await self._writer.drain()
        status, found = 0, bytearray()
        while True:
            event = protocol.next_event()
            if event is h11.NEED_DATA:
                async with asyncio.timeout(self._timeout):
                    protocol.receive_data(await self._reader.read(_PART))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                found += event.data
            elif isinstance(event, h11.EndOfMessage):
                return HttpAnswer(status, bytes(found))
            elif isinstance(event, h11.ConnectionClosed):
                raise h11.RemoteProtocolError("the connection was closed")

    def is_reusable(self) -> bool:
        """Whether another request may follow; then it is expected."""
        if self._protocol.our_state is not h11.DONE or self._protocol.their_state is not h11.DONE:
            return False
        self._protocol.start_next_cycle()
        return True

    def is_open(self) -> bool:
        return not (self._reader.at_eof() or self._writer.is_closing())

    def close(self) -> None:
        self._writer.close()

    def abort(self) -> None:
        self._writer.transport.abort()
