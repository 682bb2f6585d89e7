"""Middleware: while the database is away, every answer of the API says so within a few seconds.

Without it a request waits as long as the database hangs. A request that was under way when the database was lost is
answered too; if it changes something, nobody knows yet whether it did.
"""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aiosched.errors import DatabaseUnreachable
from aiosched.web.server.problems import problem_of
from aiosched.web.views.database_watch import DatabaseWatch

_GATED: Final = ("/api/", "/metrics")
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_UNKNOWN: Final = " Whether this change was stored is not known: look before you repeat it."


class DatabaseGate:
    """ASGI middleware for addresses that begin with `gated`. An answer that has begun is left to its endpoint."""

    def __init__(self, app: ASGIApp, *, watch: DatabaseWatch, gated: tuple[str, ...] = _GATED) -> None:
        self._app, self._watch, self._gated = app, watch, gated

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _path(scope).startswith(self._gated):
            await self._app(scope, receive, send)
            return
        await self._watch.told()
        if self._watch.outage is not None:
            await _refuse(scope, receive, send, self._watch.detail)
            return
        has_begun = is_given_up = False

        async def answer(message: Message) -> None:
            nonlocal has_begun
            if not is_given_up:
                has_begun = True
                await send(message)

        work = asyncio.ensure_future(self._app(scope, receive, answer))
        try:
            if await self._watch.is_lost_before(work) and not has_begun:
                is_given_up = True
                self._watch.leave(work)
                unknown = "" if scope["method"] in _READING else _UNKNOWN
                await _refuse(scope, receive, send, f"{self._watch.detail}{unknown}")
                return
            await work
        except asyncio.CancelledError:
            work.cancel()
            raise


def _path(scope: Scope) -> str:
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


async def _refuse(scope: Scope, receive: Receive, send: Send, detail: str) -> None:
    await problem_of(DatabaseUnreachable(detail)).response()(scope, receive, send)
