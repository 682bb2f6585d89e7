"""Sends requests to the worker API past the application of a web server.

Requests to it do not go through the application's middleware: they come from programs with a token of their own, not
from browsers, under whatever name reaches this machine, and may be larger.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from aiosched.core.values.worker_messages import PREFIX


class WorkerApiDispatcher:
    """ASGI middleware, the outermost one: `api` answers below its prefix, the application everything else."""

    def __init__(self, app: ASGIApp, api: ASGIApp) -> None:
        self._app, self._api = app, api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path = scope["path"].removeprefix(scope.get("root_path", ""))
            if path.startswith(f"{PREFIX}/"):
                await self._api(scope, receive, send)
                return
        await self._app(scope, receive, send)
