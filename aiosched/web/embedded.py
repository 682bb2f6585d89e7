"""The web application of an embedded scheduler, to mount in any ASGI application at any prefix.

It is created by the first request after the scheduler has started, uses the scheduler's database and event loop, and
lives as long as the scheduler.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from aiosched.errors import ConfigError
from aiosched.web.app import make_app
from aiosched.web.auth.access import Authenticator
from aiosched.web.auth.accounts import Accounts
from aiosched.web.requests.request_client import RequestClient
from aiosched.web.server.problems import Problem

if TYPE_CHECKING:
    from aiosched.scheduler import Scheduler

_LONGEST_STREAM: Final = 10.0  # seconds: the server around us waits for open streams when it stops


def web_app(scheduler: Scheduler, authenticator: Authenticator | None) -> EmbeddedApp:
    """What `Scheduler.web_app` returns. Raises ConfigError if nothing says who may use it."""
    if authenticator is None and scheduler.settings.web.auth is None:
        raise ConfigError(
            "Who may use the web application inside yours? Set web.auth to 'password', or to 'none' if your "
            "application handles the login, or pass `web_app(authenticator=…)`."
        )
    return EmbeddedApp(scheduler, authenticator)


class EmbeddedApp:
    """ASGI. Answers 503 while the scheduler is not running."""

    def __init__(self, scheduler: Scheduler, authenticator: Authenticator | None) -> None:
        self._scheduler = scheduler
        self._authenticator = authenticator
        self._app: FastAPI | None = None
        self._making = asyncio.Lock()  # only one of several concurrent first requests creates the application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # the lifespan is the scheduler's; there are no websockets
        if not self._scheduler.is_running:
            problem = Problem(503, "not-running", "The scheduler of this application is not running.")
            await problem.response()(scope, receive, send)
            return
        await (await self._ready())(scope, receive, send)

    async def _ready(self) -> FastAPI:
        async with self._making:
            if self._app is None or self._app.state.request_client.db is not self._scheduler.db:
                request_client = RequestClient(
                    self._scheduler.db, self._scheduler.settings, clock=self._scheduler.clock
                )
                app = make_app(request_client, authenticator=self._authenticator, longest_stream=_LONGEST_STREAM)
                if isinstance(accounts := app.state.authenticator, Accounts):
                    await accounts.start()
                self._app = app
                self._scheduler.on_close(self._close)
            return self._app

    async def _close(self) -> None:
        app, self._app = self._app, None
        if app is not None:
            app.state.hub.close()
            app.state.watch.close()
            if app.state.replica is not None:
                await app.state.replica.close()
            if app.state.provider is not None:
                await app.state.provider.close()
