"""The worker API, as a worker calls it. With TLS it needs httpx2 (`pip install 'aiosched[worker]'`).

What does not reach a server is asked again, at the next address, until the worker's lease is over. Source:
docs/decisions/0036-attempts-on-engines.md.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

import msgspec

from aiosched.core.values.worker_messages import MEDIA_TYPE, PREFIX
from aiosched.errors import AttemptStopped, ConfigError, ExecutorError
from aiosched.executors.engines.plain_http import SILENCE, HttpAnswer, PlainHttp
from aiosched.timeouts import silence_options

logger: logging.Logger = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 0.05  # seconds before a request is repeated, doubled up to the last
LAST_PAUSE: Final = 2.0
_TIMEOUT: Final = 20.0  # of one request; some answers wait for another scheduler
_MOST: Final = 20  # requests at a time
_encode: Final = msgspec.msgpack.Encoder().encode

M = TypeVar("M")


class AttemptGone(Exception):
    """The attempt has ended, or its lease has: 410."""


class TokenRefused(ExecutorError):
    """The token is none of that database: 401."""


class ApiClient:
    """One worker's connection to web servers; `urls` are as good as each other."""

    def __init__(self, urls: Sequence[str], *, transport: Any = None) -> None:
        self._urls = [url.rstrip("/") for url in urls]
        is_plain = transport is None and all(url.startswith("http://") for url in urls)
        self._http: PlainHttp | _FullHttp = PlainHttp(_TIMEOUT) if is_plain else _FullHttp(transport)
        self._room = asyncio.Semaphore(_MOST)
        self._at = 0
        self._is_failing = self._is_closed = False

    async def post(
        self,
        name: str,
        message: msgspec.Struct | bytes,
        answer: type[M],
        *,
        token: str | None = None,
        worker: str | None = None,
        query: str = "",
        limit: float | None = None,
        goes_on: Callable[[], bool],
    ) -> M:
        """Ask until there is an answer, while `goes_on`; then raises AttemptStopped.

        `limit`: seconds after which the same is asked again, on another connection; such a request waits for no other.

        Raises AttemptGone, TokenRefused, and ExecutorError for a request that no server accepts. AttemptStopped also if
        it is closed.
        """
        body = message if isinstance(message, bytes) else _encode(message)
        headers = {"Content-Type": MEDIA_TYPE}
        headers |= {"Authorization": f"Bearer {token}"} if token is not None else {}
        headers |= {"Aiosched-Worker": worker} if worker is not None else {}
        pause = _FIRST_PAUSE
        while True:
            problem = ""
            if self._is_closed:
                raise AttemptStopped("has stopped")
            try:
                response = await self._send(f"{self._url}{PREFIX}/{name}{query}", body, headers, limit)
            except RuntimeError:  # of a client that was closed meanwhile
                if not self._is_closed:
                    raise
                continue
            except OSError as error:
                problem = f"{self._url}: {type(error).__name__} {error}".strip()
            else:
                if response.status in (200, 204):
                    self._is_failing = False
                    if answer is bytes:
                        return cast("M", response.body)
                    return msgspec.msgpack.decode(response.body, type=answer) if response.body else answer()
                if response.status == 410:
                    raise AttemptGone
                problem = f"{self._url} answered {response.status}: {response.body[:500].decode(errors='replace')}"
                if response.status < 500 and response.status != 429:
                    kind = TokenRefused if response.status == 401 else ExecutorError
                    raise kind(f"The worker API refused {name!r}: {problem}")
            if not self._is_failing:
                self._is_failing = True
                logger.warning("the worker API cannot be reached; trying again: %s", problem)
            self._at += 1
            await asyncio.sleep(pause)
            pause = min(2 * pause, LAST_PAUSE)
            if not goes_on():
                raise AttemptStopped(f"could not reach the worker API for as long as its lease: {problem}")

    async def _send(self, url: str, body: bytes, headers: Mapping[str, str], limit: float | None) -> HttpAnswer:
        if limit is None:
            async with self._room:
                return await self._http.post(url, body, headers)
        async with asyncio.timeout(limit):
            return await self._http.post(url, body, headers)

    @property
    def _url(self) -> str:
        return self._urls[self._at % len(self._urls)]

    async def close(self) -> None:
        """Close all connections; whoever asks gets AttemptStopped."""
        self._is_closed = True
        await self._http.close()


class _FullHttp:
    """As PlainHttp, by httpx2: for TLS, and for the transports of tests."""

    def __init__(self, transport: Any) -> None:
        try:
            import httpx2
        except ImportError:
            raise ConfigError(
                "A worker API with TLS needs httpx2: pip install 'aiosched[worker]' where workers run."
            ) from None
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=_MOST, keepalive_expiry=60.0)
        transport = transport or httpx2.AsyncHTTPTransport(
            trust_env=False, limits=limits, socket_options=silence_options(SILENCE)
        )
        self._client = httpx2.AsyncClient(timeout=_TIMEOUT, transport=transport, trust_env=False)
        self._unreachable = (httpx2.TransportError, httpx2.InvalidURL)

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        try:
            response = await self._client.post(url, content=body, headers=headers)
        except self._unreachable as error:
            raise ConnectionError(f"{type(error).__name__} {error}".strip()) from error
        return HttpAnswer(response.status_code, response.content)

    async def close(self) -> None:
        await self._client.aclose()
