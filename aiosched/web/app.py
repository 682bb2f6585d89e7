"""The ASGI application:

API, health, metrics and UI, mountable under any prefix. Here: putting the parts together, and their start and stop.
Elsewhere: what they do (api/, views/), who may use them (auth/), the server (server/).
"""

from __future__ import annotations

import contextlib
import functools
import logging
import math
from collections.abc import AsyncIterator
from typing import Final

from fastapi import APIRouter, Depends, FastAPI
from starlette.routing import BaseRoute

from aiosched.db.audit.settings import record_settings
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import is_retryable
from aiosched.db.server.replica import Replica
from aiosched.db.server.schema_version import check_schema
from aiosched.version import __version__
from aiosched.web.api import ROUTERS
from aiosched.web.api.operation import probes
from aiosched.web.application import Application, operation_id
from aiosched.web.auth.access import Authenticator, Loopback, authorise
from aiosched.web.auth.accounts import Accounts
from aiosched.web.auth.known_dags import KnownDags
from aiosched.web.auth.oidc import Provider
from aiosched.web.requests.request_client import READING, RequestClient
from aiosched.web.server import exposition, problems
from aiosched.web.server.etags import Etags
from aiosched.web.server.guard import Guard
from aiosched.web.server.host_names import names_answered
from aiosched.web.server.ports import asks_for_token
from aiosched.web.views import documentation, ui_files
from aiosched.web.views.database_gate import DatabaseGate
from aiosched.web.views.database_watch import DatabaseWatch, Preparation, examine
from aiosched.web.views.health import Health
from aiosched.web.views.live import Hub
from aiosched.web.views.recent import Recent
from aiosched.web.views.replica_gate import ReplicaGate
from aiosched.web.views.replica_watch import ReplicaWatch
from aiosched.web.views.scheduler_rates import FleetRates
from aiosched.web.worker_api.dispatch import WorkerApiDispatcher
from aiosched.web.worker_api.endpoints import make_worker_api

logger: logging.Logger = logging.getLogger(__name__)

API: Final = "/api/v1"


def make_app(
    request_client: RequestClient,
    *,
    authenticator: Authenticator | None = None,
    longest_stream: float = math.inf,
    listens: bool = False,
    migrate: Preparation | None = None,
) -> FastAPI:
    """The application on a database, which need not answer yet.

    Its lifespan prepares the database, by `migrate` at first, and starts and stops what it needs. Without an
    `authenticator`, the settings say how users log in. `longest_stream`: seconds after which a stream of live changes
    ends and the browser reconnects. `listens`: it is served at `web.host` itself, so without `web.auth` only names of
    this machine are answered there, and `web.loopback_login` counts. An application that mounts this one does not run
    its lifespan; `Scheduler.web_app` sees to that.
    """
    web = request_client.settings.web
    if authenticator is None:
        authenticator = _authenticator(request_client, listens=listens)
    app = Application(
        title="aiosched",
        version=__version__,
        summary="The REST API of aiosched: DAGs, runs and tasks, why they wait, and what to do about it.",
        openapi_url=None,  # served by api/document.py, which checks the role
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan,
    )
    app.state.request_client, app.state.migrate = request_client, migrate
    app.state.replica = replica = _replica_watch(request_client)
    app.state.known_dags = KnownDags(request_client.db)
    app.state.watch = watch = DatabaseWatch(request_client.db, request_client.clock)
    app.state.hub = Hub(
        request_client.db, watch=watch, replica=replica, clock=request_client.clock, longest=longest_stream
    )
    app.state.rates = FleetRates()
    app.state.health = Recent(functools.partial(_health, request_client.db, watch, replica))
    app.state.exposition = Recent(functools.partial(_exposition, request_client.db, replica))
    app.state.authenticator = authenticator
    app.state.provider = Provider(web) if web.auth == "oidc" else None
    if replica is not None:
        client = RequestClient(replica.replica, request_client.settings, clock=request_client.clock)
        app.add_middleware(ReplicaGate, watch=replica, state={READING: client}, leave=watch.leave)
    app.add_middleware(Etags)
    app.add_middleware(DatabaseGate, watch=watch)
    without_login = isinstance(authenticator, Loopback)
    if isinstance(authenticator, Accounts):
        without_login = authenticator.is_local
    app.add_middleware(Guard, hosts=names_answered(web, without_login=without_login, listens=listens))
    worker_api = make_worker_api(request_client.db, request_client.settings, watch)
    app.add_middleware(WorkerApiDispatcher, api=worker_api)
    problems.install(app, request_client.db, login_page=ui_files.login_page)
    app.state.api = _api()
    app.router.routes.extend(app.state.api)
    if web.airflow_api:
        from aiosched.web.airflow_api import application as airflow_api  # its many routes take time to make

        airflow_api.mount(app)
    app.router.routes.extend(_ui())  # last, as it answers every other address
    return app


def _authenticator(request_client: RequestClient, *, listens: bool) -> Authenticator:
    web = request_client.settings.web
    if web.auth in ("password", "oidc"):
        return Accounts(request_client.db, web)
    if listens and asks_for_token(web):
        return Accounts(request_client.db, web, local=True)
    return Loopback()


def _replica_watch(request_client: RequestClient) -> ReplicaWatch | None:
    settings = request_client.settings.database
    if settings.read_dsn is None:
        return None
    return ReplicaWatch(request_client.db, Replica(settings.read_dsn, settings, "aiosched web reads"))


async def _health(db: Database, watch: DatabaseWatch, replica: ReplicaWatch | None) -> Health:
    found = await examine(db, watch)
    return found if replica is None else Health({**found.parts, "replica": replica.state.health()}, found.schedulers)


async def _exposition(db: Database, replica: ReplicaWatch | None) -> bytes:
    return await exposition.exposition(db, () if replica is None else exposition.of_replica(**replica.figures()))


@functools.cache  # all applications share them: FastAPI needs a tenth of a second for them at the first request
def _api() -> tuple[BaseRoute, ...]:
    parent = _parent()
    for router in ROUTERS:
        parent.include_router(router, prefix=API)
    parent.include_router(probes.router)
    return tuple(parent.routes)


@functools.cache
def _ui() -> tuple[BaseRoute, ...]:
    parent = _parent()
    parent.include_router(documentation.router)
    parent.include_router(ui_files.router)
    return tuple(parent.routes)


def _parent() -> APIRouter:
    return APIRouter(
        redirect_slashes=False,
        dependencies=[Depends(authorise)],
        responses=problems.RESPONSES,
        generate_unique_id_function=operation_id,
    )


async def _record_settings(request_client: RequestClient) -> None:
    try:
        await record_settings(request_client.db, request_client.settings, "web")
    except Exception as error:
        if not is_retryable(error):
            raise
        logger.warning("the audit log has no entry of the settings: %s", error)


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    async def prepare() -> None:
        if app.state.migrate is not None:
            await app.state.migrate()
        await check_schema(app.state.request_client.db)
        if isinstance(accounts := app.state.authenticator, Accounts):
            await accounts.start()
        await _record_settings(app.state.request_client)

    try:
        await app.state.watch.prepare(prepare)
        if app.state.replica is not None:
            app.state.replica.start()
        yield
    finally:
        app.state.hub.close()
        app.state.watch.close()
        if app.state.replica is not None:
            await app.state.replica.close()
        if app.state.provider is not None:
            await app.state.provider.close()
