"""POST requests over plain HTTP/1.1, on connections that are kept open.

Workers ask a server twice for each attempt. A client for everything (redirects, cookies, proxies, pools of any kind)
takes four times as much processor time for that. What needs TLS goes through httpx2 (api_client.py).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

_MOST: Final = 20  # connections
_PART: Final = 65_536  # bytes that are read at once

_Place = tuple[str, int]
_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class HttpAnswer(NamedTuple):
    """The status and the body of a response."""

    status: int
    body: bytes


class PlainHttp:
    """A client. `timeout`: seconds for a connection, for what is sent, and for each part of an answer."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._idle: defaultdict[_Place, list[_Streams]] = defaultdict(list)
        self._room = asyncio.Semaphore(_MOST)

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        """Send a request and wait for the whole answer. Raises OSError, also TimeoutError, if there is none."""
        try:
            parts = urlsplit(url)
            place = parts.hostname or "", parts.port or 80
        except ValueError as error:
            raise ConnectionError(f"no address: {error}") from error
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        fields = {"Host": parts.netloc.rpartition("@")[2], **headers, "Content-Length": str(len(body))}
        lines = [f"POST {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
        async with self._room:
            reader, writer = await self._connect(place)
            try:
                async with asyncio.timeout(self._timeout):
                    writer.write("\r\n".join(lines).encode() + body)
                    await writer.drain()
                status, found = await self._head(reader)
                answer = HttpAnswer(status, await self._body(reader, status, found))
            except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError, IndexError) as error:
                writer.transport.abort()
                raise ConnectionError(f"the answer is cut off, or no HTTP: {error}") from error
            except BaseException:
                writer.transport.abort()
                raise
            if found.get("connection", "").lower() == "close":
                writer.close()
            else:
                self._idle[place].append((reader, writer))
            return answer

    async def _connect(self, place: _Place) -> _Streams:
        """One that is open, or a new one."""
        while idle := self._idle[place]:
            reader, writer = idle.pop()
            if not (reader.at_eof() or writer.is_closing()):
                return reader, writer
            writer.close()
        async with asyncio.timeout(self._timeout):
            return await asyncio.open_connection(*place)

    async def _head(self, reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
        """The status and the fields, whose names are in lower case; notices that precede an answer are left out."""
        while True:
            async with asyncio.timeout(self._timeout):
                lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            version, code = lines[0].split(" ", 2)[:2]
            if not version.startswith("HTTP/1."):
                raise ValueError(lines[0][:50])
            if (status := int(code)) >= 200:
                fields = (line.partition(":") for line in lines[1:] if line)
                return status, {name.lower(): value.strip() for name, _, value in fields}

    async def _body(self, reader: asyncio.StreamReader, status: int, fields: Mapping[str, str]) -> bytes:
        if status in (204, 304):
            return b""
        if fields.get("transfer-encoding", "").lower() == "chunked":
            return await self._chunks(reader)
        if (length := fields.get("content-length")) is not None:
            return await self._exactly(reader, int(length))
        raise ValueError("an answer without a length")

    async def _chunks(self, reader: asyncio.StreamReader) -> bytes:
        found = bytearray()
        while True:
            size = int((await self._line(reader)).split(b";")[0], 16)
            if size == 0:
                while await self._line(reader):  # trailing fields
                    pass
                return bytes(found)
            found += await self._exactly(reader, size)
            await self._line(reader)

    async def _line(self, reader: asyncio.StreamReader) -> bytes:
        async with asyncio.timeout(self._timeout):
            return (await reader.readuntil(b"\n")).strip()

    async def _exactly(self, reader: asyncio.StreamReader, size: int) -> bytes:
        found = bytearray()
        while (left := size - len(found)) > 0:
            async with asyncio.timeout(self._timeout):
                found += await reader.readexactly(min(left, _PART))
        return bytes(found)

    async def close(self) -> None:
        """Close the connections on which nobody waits."""
        for idle in self._idle.values():
            for _, writer in idle:
                writer.close()
        self._idle.clear()
