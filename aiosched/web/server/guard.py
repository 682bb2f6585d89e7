"""Middleware for every request and answer: security headers, and refusals that need no route.

- No page may load, frame or talk to anything but this server (Content-Security-Policy).
- Without a login, only host names of this machine are answered, so that no site can reach the API through a name of its
own (DNS rebinding).
- A changing request that a browser sends for another site is refused (Sec-Fetch-Site, Origin).
- The size of bodies is limited.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aiosched.web.server.ports import is_loopback
from aiosched.web.server.problems import Problem

MOST_BODY: Final = 2**21
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


class Guard:
    """ASGI middleware. `hosts`: the host names that are answered; None: all."""

    def __init__(self, app: ASGIApp, *, only_loopback: bool, hosts: Collection[str] = ()) -> None:
        self._app = app
        self._only_loopback = only_loopback
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if "cache-control" not in headers:
                    headers["Cache-Control"] = "no-store"
            await send(message)

        read = 0

        async def limited() -> Message:
            nonlocal read
            message = await receive()
            if message["type"] == "http.request":
                read += len(message.get("body", b""))
                if read > MOST_BODY:
                    raise HTTPException(413, _TOO_LARGE.detail)
            return message

        problem = self._objection(scope)
        app = self._app if problem is None else problem.response()
        await app(scope, limited, answer)

    def _objection(self, scope: Scope) -> Problem | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._answers(host):
            return Problem(
                421,
                "wrong-host",
                f"This server does not answer to the name {_name(host)!r}. Add it to web.allowed_hosts if it should.",
            )
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > MOST_BODY:
            return _TOO_LARGE
        if scope["method"] not in _SAFE and _is_foreign(headers, host):
            return Problem(403, "cross-site", "This request was sent by a page of another site.")
        return None

    def _answers(self, host: str) -> bool:
        name = _name(host).lower()
        if name in self._hosts:
            return True
        return is_loopback(name) if self._only_loopback else not self._hosts


_TOO_LARGE: Final = Problem(413, "too-large", f"A request may have at most {MOST_BODY:,} bytes.")


def _is_foreign(headers: Headers, host: str) -> bool:
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc.lower() != host.lower()


def _name(host: str) -> str:
    """The name in a Host header, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
