"""The endpoints of the worker API. Workers have no password of the database; each attempt has a token of its own.

    POST /worker/v1/starts      StartClaims     -> StartAnswers
    POST /worker/v1/heartbeat   WorkerHeartbeat       -> WorkerHeartbeatAnswer
    POST /worker/v1/xcoms       XComQuestion    -> XComAnswer
    POST /worker/v1/call        ServiceCall     -> ServiceAnswer
    POST /worker/v1/log?offset= bytes           -> nothing          the worker's id is the header Aiosched-Worker
    POST /worker/v1/code        CodeCall    -> a zip archive    404: there is no such code, with the reason
    POST /worker/v1/reports     FinalReports    -> FinalReportsAnswer

Bodies are msgpack (core/values/worker_messages.py). Each request has the token of an attempt that it is about, or of
one of these, as `Authorization: Bearer`: nothing of a body is read before that is known to be signed by this database.
401: no such token. 410: the attempt has ended, or its lease has. 400: a body that cannot be read. 413: one that is too
large. 403: a browser asks. 503: ask again. While the database is away that comes within seconds.
"""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from aiosched.config import Settings
from aiosched.core.values.messages import Attempt, Outcome, Report, TaskServices
from aiosched.core.values.received_reports import received
from aiosched.core.values.service_errors import kind_of
from aiosched.core.values.worker_messages import (
    LONGEST_TOKEN,
    MEDIA_TYPE,
    MOST_ATTEMPTS,
    PREFIX,
    AttemptStatus,
    CodeCall,
    FinalReports,
    FinalReportsAnswer,
    ServiceCall,
    ServiceResult,
    StartAnswer,
    StartAnswers,
    StartClaims,
    WorkerHeartbeat,
    WorkerHeartbeatAnswer,
    XComCall,
    XComResult,
)
from aiosched.db.crypto.keyring import Keyring
from aiosched.db.crypto.secret_confs import SecretConfs
from aiosched.db.engines import workers
from aiosched.db.engines.tokens import AttemptToken, TokenSigner
from aiosched.db.people.signing_keys import PresentKeys
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import is_about_content, is_of_database
from aiosched.db.server.schema_version import check_schema
from aiosched.errors import BundleError, TimedOut
from aiosched.scheduler import CodeArchives, services_of
from aiosched.web.views.database_gate import DatabaseGate
from aiosched.web.views.database_watch import DatabaseWatch, Preparation, examine
from aiosched.web.views.health import Health, Status
from aiosched.web.views.recent import Recent
from aiosched.web.worker_api.received_logs import ReceivedLogs

logger: logging.Logger = logging.getLogger(__name__)

MOST_BODY: Final = 64 * 2**20  # bytes of reports, of logs, and of what a task tells a service
_MOST_TOKENS: Final = 2 * MOST_ATTEMPTS * LONGEST_TOKEN  # bytes of a message of tokens
_MOST_REFS: Final = 2**20  # bytes of the names of XComs
_LONGEST_OFFSET: Final = 18  # digits
_encode: Final = msgspec.msgpack.Encoder().encode

M = TypeVar("M", bound=msgspec.Struct)


class Refusal(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(slots=True)
class WorkerApi:
    """The endpoints on one database. `lease`: seconds that a worker may be silent; `grace`: that an attempt may take to
    end whose task instance is at another try."""

    db: Database
    services: Any  # DatabaseServices
    logs: ReceivedLogs
    archives: CodeArchives
    confs: SecretConfs
    max_xcom_bytes: int
    lease: float
    grace: float
    health: Recent[Health]
    _signer: TokenSigner | None = None
    _keys: PresentKeys = field(init=False)

    def __post_init__(self) -> None:
        self._keys = PresentKeys(self.db)

    async def starts(self, request: Request) -> Response:
        """A worker claims the starts of attempts."""
        await self._token(request)
        claims = await self._body(request, StartClaims, most=_MOST_TOKENS)
        tokens = [await self._open(text) for text in claims.tokens]
        known = {token for token in tokens if token is not None}
        async with self.db.acquire() as conn:
            found = await workers.claim_starts(
                conn, known, worker=claims.worker, hostname=claims.hostname, pid=claims.pid, lease=self.lease
            )
        sizes = await self.logs.sizes(found.attempts.values())
        offsets = dict(zip(found.attempts, sizes, strict=True))
        attempts = dict(zip(found.attempts, self.confs.open_for_tasks(found.attempts.values()), strict=True))

        def answer_to(token: AttemptToken | None) -> StartAnswer:
            if token is None:
                return StartAnswer(refusal="its token is not one of this database")
            if (attempt := attempts.get(token)) is not None:
                return StartAnswer(attempt=attempt, log_offset=offsets[token])
            elsewhere = token in found.begun_elsewhere
            return StartAnswer(refusal="another worker has begun it" if elsewhere else "it has been given up")

        return _answer(StartAnswers(answers=list(map(answer_to, tokens)), lease=self.lease))

    async def heartbeat(self, request: Request) -> Response:
        """A worker renews its lease, and hears what it is to stop."""
        await self._token(request)
        beat = await self._body(request, WorkerHeartbeat, most=_MOST_TOKENS)
        tokens = [await self._open(text) for text in beat.tokens]
        known = {token for token in tokens if token is not None}
        async with self.db.transaction() as conn:
            renewed = await workers.renew(conn, known, worker=beat.worker, lease=self.lease, grace=self.grace)
            alive = {one.token: one for one in renewed}
        found = [None if token is None else alive.get(token) for token in tokens]
        states = [
            AttemptStatus(gone=True) if one is None else AttemptStatus(stop_grace=one.stop_grace) for one in found
        ]
        return _answer(WorkerHeartbeatAnswer(attempts=states, lease=self.lease))

    async def xcoms(self, request: Request) -> Response:
        """A task reads XComs."""
        token = await self._token(request)
        call = await self._body(request, XComCall, most=_MOST_REFS)
        await self._check(token, call.worker)
        services: TaskServices = self.services
        try:
            pairs = await services.get_xcoms(token.key.run, call.refs)
        except Exception as error:
            if _is_passing(error):
                raise
            return _answer(XComResult(error=_shown(error)))
        return _answer(XComResult(pairs=pairs))

    async def call(self, request: Request) -> Response:
        """A task calls a service."""
        token, call = await self._token(request), await self._body(request, ServiceCall)
        await self._check(token, call.worker)
        try:
            answer = await self.services.call(token.key.run, call.name, call.args, request=call.id)
        except Exception as error:  # for the task, which may be retried
            if _is_passing(error):
                raise
            return _answer(ServiceResult(error=_shown(error), kind=kind_of(error)))
        return _answer(ServiceResult(answer=answer))

    async def log(self, request: Request) -> Response:
        """A worker sends a part of a log."""
        token = await self._token(request)
        worker, offset = request.headers.get("aiosched-worker", ""), request.query_params.get("offset", "")
        if not (offset.isdecimal() and len(offset) <= _LONGEST_OFFSET):
            raise Refusal(400, "offset is a number of bytes")
        data = await _read(request)
        async with self.db.acquire() as conn:
            claimed = await workers.claimed_attempts(conn, [token], worker=worker)
        if token not in claimed:
            raise _gone()
        await self._write_log(claimed[token], int(offset), data)
        return Response(status_code=204)

    async def reports(self, request: Request) -> Response:
        """A worker sends final reports: 200 once they are stored."""
        await self._token(request)
        final = await self._body(request, FinalReports)
        tokens = [await self._open(each.token) for each in final.reports]
        ends = {
            token: each
            for token, each in zip(tokens, final.reports, strict=True)
            if token is not None and each.report.outcome is not Outcome.STARTED
        }
        async with self.db.acquire() as conn:
            claimed = await workers.claimed_attempts(conn, ends.keys(), worker=final.worker)
        for token, attempt in claimed.items():
            if ends[token].log:
                await self._write_log(attempt, ends[token].log_offset, ends[token].log)
        reports = [
            (token, received(ends[token].report, attempt, self.max_xcom_bytes)) for token, attempt in claimed.items()
        ]
        stored = await self._finish(reports, final.worker)
        return _answer(FinalReportsAnswer(stored=[token in stored for token in tokens]))

    async def _write_log(self, attempt: Attempt, offset: int, data: bytes) -> None:
        """What cannot be written is lost, and that is said: the worker would send it again for as long as it may."""
        if (unwritten := await self.logs.write(attempt, offset, data)) is not None:
            told = unwritten.told(attempt, socket.gethostname())
            await self.services.call(attempt.key.run, "unwritten_log", told)

    async def _finish(self, reports: Sequence[tuple[AttemptToken, Report]], worker: str) -> set[AttemptToken]:
        """Store reports together; if that fails, each by itself. One that cannot be stored fails its attempt."""
        try:
            async with self.db.acquire() as conn:
                return await workers.finish(conn, reports, worker=worker)
        except Exception as error:
            if _is_passing(error):
                raise
            if len(reports) == 1:
                token, report = reports[0]
                reason = f"its report cannot be stored: {type(error).__name__}: {error}"
                logger.exception("%s: %s", report.key, reason)
                async with self.db.acquire() as conn:
                    failed = Report(key=report.key, outcome=Outcome.FAILED, at=report.at, reason=reason)
                    return await workers.finish(conn, [(token, failed)], worker=worker)
        stored = set[AttemptToken]()
        for each in reports:
            stored |= await self._finish([each], worker)
        return stored

    async def code(self, request: Request) -> Response:
        """A worker fetches the version of the bundle of an attempt that it runs."""
        token = await self._token(request)
        call = await self._body(request, CodeCall, most=_MOST_TOKENS)
        async with self.db.acquire() as conn:
            claimed = await workers.claimed_attempts(conn, [token], worker=call.worker)
        if token not in claimed:
            raise _gone()
        run = claimed[token].run
        if run.bundle_version is None:
            raise Refusal(404, "its code is that of the worker's own DAGs folder (core.dags_folder)")
        try:
            archive = await self.archives.read(run.bundle, run.bundle_version)
        except BundleError as error:
            raise Refusal(404, str(error)) from None
        return Response(archive, media_type="application/zip")

    async def livez(self, request: Request) -> Response:
        """The event loop responds."""
        return Response("alive", media_type="text/plain")

    async def readyz(self, request: Request) -> Response:
        """The database answers and its schema is current, else 503."""
        database = (await self.health.get()).parts["database"]
        if database.status is not Status.HEALTHY:
            return Response(database.detail, 503, media_type="text/plain")
        return Response("ready", media_type="text/plain")

    async def _check(self, token: AttemptToken, worker: str) -> None:
        async with self.db.acquire() as conn:
            if not await workers.is_claimed(conn, token, worker=worker):
                raise _gone()

    async def _token(self, request: Request) -> AttemptToken:
        kind, _, text = request.headers.get("authorization", "").partition(" ")
        is_token = kind.lower() == "bearer" and len(text) <= LONGEST_TOKEN
        token = await self._open(text) if is_token else None
        if token is None:
            raise Refusal(401, "send the attempt's token: Authorization: Bearer …")
        return token

    async def _open(self, text: str) -> AttemptToken | None:
        keys = await self._keys.get()
        if self._signer is None or self._signer.keys != keys:
            self._signer = TokenSigner(keys)
        return self._signer.open(text)

    async def _body(self, request: Request, kind: type[M], *, most: int = MOST_BODY) -> M:
        data = await _read(request, most)
        try:
            return msgspec.msgpack.decode(data, type=kind)
        except msgspec.MsgspecError as error:
            raise Refusal(400, f"the body cannot be read: {error}") from None


def make_worker_api(
    db: Database, settings: Settings, watch: DatabaseWatch | None = None, *, migrate: Preparation | None = None
) -> ASGIApp:
    """The ASGI application with these endpoints, on a database that need not answer yet: then they answer 503.

    `watch` is that of the web server around it. Alone, its lifespan prepares the database, by `migrate` at first.
    """
    watch = watch or DatabaseWatch(db)
    logs = ReceivedLogs(
        settings.logs_folder, limit=settings.core.max_log_bytes, uploaded=settings.logs.remote is not None
    )
    lease, grace = settings.executor.worker_lease, settings.core.killed_task_cleanup_time
    most = settings.core.max_xcom_bytes
    confs = SecretConfs(Keyring.of(settings))
    health = Recent(partial(examine, db, watch))
    api = WorkerApi(db, services_of(db, settings), logs, CodeArchives(db, settings), confs, most, lease, grace, health)
    names = ("starts", "code", "heartbeat", "xcoms", "call", "log", "reports")
    routes = [Route(f"{PREFIX}/{name}", _guarded(getattr(api, name)), methods=["POST"]) for name in names]
    probes = [Route("/livez", _guarded(api.livez)), Route("/readyz", _guarded(api.readyz))]  # of the role worker-api
    app = Starlette(routes=[*routes, *probes], lifespan=partial(_lifespan, db, watch, migrate))
    return DatabaseGate(app, watch=watch, gated=(f"{PREFIX}/",))


@contextlib.asynccontextmanager
async def _lifespan(
    db: Database, watch: DatabaseWatch, migrate: Preparation | None, _: Starlette
) -> AsyncIterator[None]:
    async def prepare() -> None:
        if migrate is not None:
            await migrate()
        await check_schema(db)

    try:
        await watch.prepare(prepare)
        yield
    finally:
        watch.close()


def _guarded(endpoint: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        if "origin" in request.headers or "sec-fetch-site" in request.headers:
            return Response("this is for workers, not for browsers", 403, media_type="text/plain")
        try:
            return await endpoint(request)
        except Refusal as refusal:
            return Response(str(refusal), refusal.status, media_type="text/plain")
        except ClientDisconnect:  # in the middle of its body: nobody hears this answer
            return Response(status_code=400)
        except Exception as error:
            if is_about_content(error):  # a number or a text that no row can hold
                return Response(f"the database does not take it: {error}", 400, media_type="text/plain")
            if not _is_passing(error):
                logger.exception("the worker API failed: %s", request.url.path)
                return Response(f"{type(error).__name__}: {error}", 500, media_type="text/plain")
            return Response(f"ask again: {error}", 503, media_type="text/plain")

    return answer


def _is_passing(error: Exception) -> bool:
    """Whether the same call may be answered later."""
    return is_of_database(error) or isinstance(error, TimedOut)


def _shown(error: Exception) -> str:
    return str(error) if kind_of(error) else f"{type(error).__name__}: {error}"


async def _read(request: Request, most: int = MOST_BODY) -> bytes:
    announced, data = request.headers.get("content-length", ""), bytearray()
    if announced.isdecimal() and int(announced) > most:
        raise Refusal(413, f"a body of this kind may have {most:,} bytes")
    async for part in request.stream():
        data += part
        if len(data) > most:
            raise Refusal(413, f"a body of this kind may have {most:,} bytes")
    return bytes(data)


def _answer(message: msgspec.Struct) -> Response:
    return Response(_encode(message), media_type=MEDIA_TYPE)


def _gone() -> Refusal:
    return Refusal(410, "the attempt has ended, or its worker's lease has")
