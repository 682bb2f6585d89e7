"""Questions go to the replica, if it may answer them, and what it cannot answer well goes to the primary.

A request may be answered from the replica if it only reads, and says by the header `Aiosched-Position` what it knows
of. What the replica has not, and what fails there in any way, as by a conflict with what it replays, is asked of the
primary before anything is sent. An answer to any other request has the header, with what is stored now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aiosched.db.server.replica import Reading, reading_from
from aiosched.web.views.replica_watch import HEADER, ReplicaWatch

_SAFE: Final = ("GET", "HEAD", "OPTIONS")


class ReplicaGate:
    """ASGI middleware. `state` is that of requests while the replica is read; `leave` gets work that hangs there."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        watch: ReplicaWatch,
        state: dict[str, Any],
        leave: Callable[[asyncio.Task[None]], None],
    ) -> None:
        self._app, self._watch, self._state, self._leave = app, watch, state, leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["method"] not in _SAFE:
            await self._app(scope, receive, self._with_position(send))
        elif (needed := self._needed(scope)) is None or not await self._is_answered(needed, scope, receive, send):
            await self._app(scope, receive, send)

    def _needed(self, scope: Scope) -> int | None:
        self._watch.start()
        return self._watch.needed(Headers(scope=scope).get(HEADER)) if scope["method"] == "GET" else None

    def _with_position(self, send: Send) -> Send:
        async def told(message: Message) -> None:
            if message["type"] == "http.response.start" and (found := await self._watch.position_if_told()) is not None:
                MutableHeaders(scope=message)[HEADER] = found
            await send(message)

        return told

    async def _is_answered(self, needed: int, scope: Scope, receive: Receive, send: Send) -> bool:
        """Answer from the replica; False: nothing is answered yet."""
        has_begun = is_given_up = False

        with reading_from(needed) as reading:

            async def answer(message: Message) -> None:
                nonlocal has_begun
                if message["type"] == "http.response.start":
                    has_begun = not (is_given_up or _is_doubtful(message, reading))
                if has_begun:
                    await send(message)

            state = scope.setdefault("state", {})
            state.update(self._state)
            work = asyncio.ensure_future(self._app({**scope}, receive, answer))
            try:
                await self._watch.unless_lost(work)
                if work.done() or has_begun:
                    await work
                else:
                    is_given_up = True
                    self._leave(work)
            except asyncio.CancelledError:
                work.cancel()
                raise
            except Exception:
                if has_begun or not reading.was_asked:
                    raise
            finally:
                for name in self._state:
                    state.pop(name)
        self._watch.answered += has_begun and reading.was_asked
        self._watch.repeated += not has_begun
        return has_begun


def _is_doubtful(start: Message, reading: Reading) -> bool:
    """Whether an answer that begins may be another one on the primary: something is not there yet, or has failed."""
    failed = reading.has_failed or start["status"] == 404 or start["status"] >= 500
    return reading.was_asked and failed
