"""Answers that change rarely: a weak ETag of the body, and 304 for clients that have it already.

An endpoint says so with `dependencies=[RARELY]`; browsers may then cache its answers, and revalidate them each time.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from fastapi import Depends, Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_MARK: Final = "changes_rarely"


async def _mark(request: Request) -> None:
    setattr(request.state, _MARK, True)


RARELY: Final[Any] = Depends(_mark)
RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    304: {"description": "The cached answer named by `If-None-Match` is still valid"}
}


class Etags:
    """ASGI middleware: adds ETags to the 200 answers of endpoints with `RARELY`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        start: Message | None = None

        async def tagged(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and message["status"] == 200 and _is_marked(scope):
                start = message  # until the body is known
                return
            if start is not None:
                begun, start = start, None
                if not message.get("more_body"):
                    message = _tag(begun, message, Headers(scope=scope).get("if-none-match", ""))
                await send(begun)
            await send(message)

        await self._app(scope, receive, tagged)


def _is_marked(scope: Scope) -> bool:
    return bool(scope.get("state", {}).get(_MARK))


def _tag(start: Message, body: Message, known: str) -> Message:
    """Add the ETag to `start`; returns the body to send, which is empty if the client has it."""
    tag = f'W/"{hashlib.blake2b(body.get("body", b""), digest_size=16).hexdigest()}"'
    headers = MutableHeaders(scope=start)
    headers["ETag"] = tag
    headers["Cache-Control"] = "private, no-cache"
    if not any(one.strip() in (tag, tag.removeprefix("W/"), "*") for one in known.split(",")):
        return body
    start["status"] = 304
    del headers["content-length"], headers["content-type"]
    return {**body, "body": b""}
