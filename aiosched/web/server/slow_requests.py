"""Requests that do not come to their end: how long the head and the body of each may take, whatever the route.

uvicorn waits for ever for the rest of a head or a body, so one client could keep open all connections that there are;
and it takes heads of any size, and any number of requests at once (its C parser has no limits). It also takes fields
behind a body in chunks for headers of the request, which has been checked without them: they are dropped. A body may
take a fixed time and what its bytes need at a slow line's rate; time in which this server does not read does not count.
Elsewhere: bytes of bodies (guard.py, worker_api/), connections without a request (uvicorn's keep-alive).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

MOST_HEAD: Final = 2**14  # bytes
MOST_WAITING: Final = 16  # requests of a connection behind the one that is answered
MOST_UNREAD: Final = 2**26  # bytes of a body that was answered before its end: as much as one may have (worker_api/)
_FRAME: Final = 8  # bytes that a chunk of one byte needs, and some more
_TOO_SLOW: Final = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Seconds that a head may take, from its first byte or that of the connection; seconds that a body may, besides
    its bytes at `rate` a second."""

    head: float = 20.0
    body: float = 30.0
    rate: float = 32.0 * 2**10


class TooMuch(Exception):
    """A head is too long, or too many requests wait: the parser ends the connection with a 400."""


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol for one connection, with limits of time and size."""

    def __init__(self, *args: Any, limits: RequestLimits, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits = limits
        self._request: RequestResponseCycle | None = None  # the last one whose head is complete
        self._due: float | None = None  # when what is arriving has to be there, by the loop's clock
        self._timer: asyncio.TimerHandle | None = None
        self._is_head = True  # what comes next
        self._overhead = 0  # bytes that have come of a head that is not complete, or between those of a body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Of asyncio."""
        super().connection_made(transport)
        self._expect(self.loop.time() + self._limits.head)

    def connection_lost(self, exc: Exception | None) -> None:
        """Of asyncio."""
        self._expect(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Of asyncio."""
        self._overhead += len(data)
        super().data_received(data)
        if self._overhead > (MOST_UNREAD if self._is_unread else MOST_HEAD):
            if self._is_head:
                self.send_400_response("The head of the request is too long.")
            else:
                self.transport.abort()
        self._look(len(data))

    @property
    def _is_unread(self) -> bool:
        """Whether the rest of a body comes that was answered already."""
        return not self._is_head and self.cycle.response_complete

    def on_message_begin(self) -> None:
        """Of the parser."""
        self._is_head = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Of the parser."""
        if self._is_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Of the parser."""
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > MOST_HEAD or len(self.pipeline) >= MOST_WAITING:
            raise TooMuch
        self._is_head, self._overhead = False, 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Of the parser."""
        if not self._is_unread:
            self._overhead = max(0, self._overhead - _FRAME * len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Of the parser."""
        self._is_head, self._overhead = True, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Of uvicorn."""
        super().on_response_complete()
        self._look(0)  # another request may have been waiting behind it

    def _look(self, size: int) -> None:
        """Whether a head or a body is still to come, now that so many bytes have."""
        now = self.loop.time()
        if self.pipeline:  # what is behind a request that is answered has time until its turn
            self._expect(None)
        elif self.cycle is not self._request:
            self._request = self.cycle
            self._expect(now + self._limits.body)
        elif self._request is not None and self._request.more_body and self._due is not None:
            self._due += size / self._limits.rate
        if self.cycle is self._request is not None and not self._request.more_body:
            if not self._request.response_complete:
                self._expect(None)
            elif size and self._due is None:  # the next head
                self._expect(now + self._limits.head)

    def _expect(self, due: float | None) -> None:
        self._due = due
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due is not None:
            self._timer = self.loop.call_later(due - self.loop.time(), self._check)

    def _check(self) -> None:
        self._timer = None
        if self._due is None:
            return
        now, has_body = self.loop.time(), self._request is not None and self._request.more_body
        if self.flow.read_paused:
            self._expect(now + self._limits.body)
        elif self._due > now:
            self._expect(self._due)
        elif has_body:
            self.transport.abort()  # its application hears of a client that is gone
        else:
            self.transport.write(_TOO_SLOW)
            self.transport.close()
