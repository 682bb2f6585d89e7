"""Middleware for every request and answer: security headers, and refusals that need no route.

- No page may load, frame or talk to anything but this server (Content-Security-Policy).
- Only some host names are answered, so that no site can reach the API through a name of its own (host_names.py).
- A changing request that a browser sends for another site is refused (Sec-Fetch-Site, Origin).
- The size of bodies is limited.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aiosched.web.server.host_names import HostNames, name_of
from aiosched.web.server.problems import Problem

MOST_BODY: Final = 2**21
PREFIX: Final = "aiosched prefix"  # in a scope: where this application is, also for what is mounted in it
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
    """ASGI middleware. `hosts`: those that are answered."""

    def __init__(self, app: ASGIApp, *, hosts: HostNames) -> None:
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope[PREFIX] = scope.get("root_path", "")

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if scope["scheme"] == "https":
                    headers.setdefault("Strict-Transport-Security", "max-age=31536000")
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
        if not self._hosts.include(host):
            return Problem(
                421,
                "wrong-host",
                f"This server does not answer to the name {name_of(host) or host!r}. "
                "Add it to web.allowed_hosts if it should.",
            )
        length = headers.get("content-length", "0")
        if length.isdecimal() and (len(length) > len(str(MOST_BODY)) or int(length) > MOST_BODY):
            return _TOO_LARGE
        if scope["method"] not in _SAFE and _is_foreign(headers, host):
            return Problem(403, "cross-site", "This request was sent by a page of another site.")
        return None


_TOO_LARGE: Final = Problem(413, "too-large", f"A request may have at most {MOST_BODY:,} bytes.")


def _is_foreign(headers: Headers, host: str) -> bool:
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = headers.get("origin")
    if origin is None:
        return False
    try:
        return urlsplit(origin).netloc.lower() != host.lower()
    except ValueError:  # no address, so none of ours
        return True
