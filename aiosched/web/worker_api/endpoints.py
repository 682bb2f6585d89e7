"""The endpoints of the worker API. Workers have no password of the database; each attempt has a token of its own.

    POST /worker/v1/starts      StartClaims     -> StartAnswers
    POST /worker/v1/heartbeat   WorkerHeartbeat       -> WorkerHeartbeatAnswer
    POST /worker/v1/xcoms       XComQuestion    -> XComAnswer
    POST /worker/v1/call        ServiceCall     -> ServiceAnswer
    POST /worker/v1/log?offset= bytes           -> nothing          the worker's id is the header Aiosched-Worker
    POST /worker/v1/code        CodeQuestion    -> a zip archive    404: there is no such code, with the reason
    POST /worker/v1/reports     FinalReports    -> FinalReportsAnswer

Bodies are msgpack (core/values/worker_messages.py). Those about one attempt send its token as `Authorization: Bearer`.
401: no token that this database signed. 410: the attempt has ended, or its lease has. 400: a body that cannot be read.
503: ask again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aiosched.config import Settings
from aiosched.core.values.messages import Outcome, Report, TaskServices
from aiosched.core.values.service_errors import kind_of
from aiosched.core.values.worker_messages import (
    MEDIA_TYPE,
    PREFIX,
    AttemptStatus,
    CodeQuestion,
    FinalReport,
    FinalReports,
    FinalReportsAnswer,
    ServiceAnswer,
    ServiceCall,
    StartAnswer,
    StartAnswers,
    StartClaims,
    WorkerHeartbeat,
    WorkerHeartbeatAnswer,
    XComAnswer,
    XComQuestion,
)
from aiosched.db.crypto.keyring import Keyring
from aiosched.db.crypto.secret_confs import SecretConfs
from aiosched.db.engines import workers
from aiosched.db.engines.tokens import AttemptToken, TokenSigner
from aiosched.db.people.signing_keys import PresentKeys
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import is_retryable
from aiosched.errors import BundleError, TimedOut
from aiosched.scheduler import CodeArchives, services_of
from aiosched.web.worker_api.received_logs import ReceivedLogs

logger = logging.getLogger(__name__)

MOST_BODY: Final = 64 * 2**20
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
    lease: float
    grace: float
    _signer: TokenSigner | None = None
    _keys: PresentKeys = field(init=False)

    def __post_init__(self) -> None:
        self._keys = PresentKeys(self.db)

    async def starts(self, request: Request) -> Response:
        """A worker claims the starts of attempts."""
        claims = await self._body(request, StartClaims)
        tokens = [await self._open(text) for text in claims.tokens]
        known = [token.id for token in tokens if token is not None]
        if tokens and not known:
            raise Refusal(401, "none of the tokens is one of this database")
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
            if (attempt := attempts.get(token.id)) is not None:
                return StartAnswer(attempt=attempt, log_offset=offsets[token.id])
            elsewhere = token.id in found.begun_elsewhere
            return StartAnswer(refusal="another worker has begun it" if elsewhere else "it has been given up")

        return _answer(StartAnswers(answers=list(map(answer_to, tokens)), lease=self.lease))

    async def heartbeat(self, request: Request) -> Response:
        """A worker renews its lease, and hears what it is to stop."""
        beat = await self._body(request, WorkerHeartbeat)
        ids = [None if (token := await self._open(text)) is None else token.id for text in beat.tokens]
        known = [number for number in ids if number is not None]
        async with self.db.transaction() as conn:
            renewed = await workers.renew(conn, known, worker=beat.worker, lease=self.lease, grace=self.grace)
            alive = {one.id: one for one in renewed}
        found = [alive.get(number) if number is not None else None for number in ids]
        states = [
            AttemptStatus(gone=True) if one is None else AttemptStatus(stop_grace=one.stop_grace) for one in found
        ]
        return _answer(WorkerHeartbeatAnswer(attempts=states, lease=self.lease))

    async def xcoms(self, request: Request) -> Response:
        """A task reads XComs."""
        token, question = await self._token(request), await self._body(request, XComQuestion)
        await self._check(token, question.worker)
        services: TaskServices = self.services
        try:
            if question.previous:
                pairs = [await services.get_previous_xcoms(token.key.run, question.refs[0])]
            else:
                pairs = await services.get_xcoms(token.key.run, question.refs)
        except Exception as error:
            if _is_passing(error):
                raise
            return _answer(XComAnswer(error=_shown(error)))
        return _answer(XComAnswer(pairs=pairs))

    async def call(self, request: Request) -> Response:
        """A task calls a service."""
        token, call = await self._token(request), await self._body(request, ServiceCall)
        await self._check(token, call.worker)
        try:
            answer = await self.services.call(token.key.run, call.name, call.args, request=call.id)
        except Exception as error:  # for the task, which may be retried
            if _is_passing(error):
                raise
            return _answer(ServiceAnswer(error=_shown(error), kind=kind_of(error)))
        return _answer(ServiceAnswer(answer=answer))

    async def log(self, request: Request) -> Response:
        """A worker sends a part of a log."""
        token = await self._token(request)
        worker, offset = request.headers.get("aiosched-worker", ""), request.query_params.get("offset", "")
        if not offset.isdecimal():
            raise Refusal(400, "offset is a number of bytes")
        data = await _read(request)
        async with self.db.acquire() as conn:
            claimed = await workers.claimed_attempts(conn, [token.id], worker=worker)
        if token.id not in claimed:
            raise _gone()
        await self.logs.write(claimed[token.id], int(offset), data)
        return Response(status_code=204)

    async def reports(self, request: Request) -> Response:
        """A worker sends final reports: 200 once they are stored."""
        final = await self._body(request, FinalReports)
        tokens = [await self._open(each.token) for each in final.reports]
        ends = {
            token.id: (each, msgspec.structs.replace(each.report, key=token.key, inbox_id=None, ran_by=None))
            for token, each in zip(tokens, final.reports, strict=True)
            if token is not None and each.report.outcome is not Outcome.STARTED
        }
        await self._write_logs({number: each for number, (each, _) in ends.items() if each.log}, final.worker)
        stored = await self._finish([(number, report) for number, (_, report) in ends.items()], final.worker)
        return _answer(FinalReportsAnswer(stored=[token is not None and token.id in stored for token in tokens]))

    async def _write_logs(self, parts: Mapping[int, FinalReport], worker: str) -> None:
        if not parts:
            return
        async with self.db.acquire() as conn:
            claimed = await workers.claimed_attempts(conn, parts.keys(), worker=worker)
        for number, attempt in claimed.items():
            await self.logs.write(attempt, parts[number].log_offset, parts[number].log)

    async def _finish(self, reports: Sequence[tuple[int, Report]], worker: str) -> set[int]:
        """Store reports together; if that fails, each by itself. One that cannot be stored fails its attempt."""
        try:
            async with self.db.acquire() as conn:
                return await workers.finish(conn, reports, worker=worker)
        except Exception as error:
            if _is_passing(error):
                raise
            if len(reports) == 1:
                number, report = reports[0]
                reason = f"its report cannot be stored: {type(error).__name__}: {error}"
                logger.exception("%s: %s", report.key, reason)
                async with self.db.acquire() as conn:
                    failed = Report(key=report.key, outcome=Outcome.FAILED, at=report.at, reason=reason)
                    return await workers.finish(conn, [(number, failed)], worker=worker)
        stored = set[int]()
        for each in reports:
            stored |= await self._finish([each], worker)
        return stored

    async def code(self, request: Request) -> Response:
        """A worker fetches the version of the bundle of an attempt that it runs."""
        token, question = await self._token(request), await self._body(request, CodeQuestion)
        async with self.db.acquire() as conn:
            claimed = await workers.claimed_attempts(conn, [token.id], worker=question.worker)
        if token.id not in claimed:
            raise _gone()
        run = claimed[token.id].run
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
        """The database answers, else 503."""
        async with self.db.acquire() as conn:
            await conn.fetchval("SELECT 1")
        return Response("ready", media_type="text/plain")

    async def _check(self, token: AttemptToken, worker: str) -> None:
        async with self.db.acquire() as conn:
            if not await workers.is_claimed(conn, token.id, worker=worker):
                raise _gone()

    async def _token(self, request: Request) -> AttemptToken:
        kind, _, text = request.headers.get("authorization", "").partition(" ")
        token = await self._open(text) if kind.lower() == "bearer" else None
        if token is None:
            raise Refusal(401, "send the attempt's token: Authorization: Bearer …")
        return token

    async def _open(self, text: str) -> AttemptToken | None:
        keys = await self._keys.get()
        if self._signer is None or self._signer.keys != keys:
            self._signer = TokenSigner(keys)
        return self._signer.open(text)

    async def _body(self, request: Request, kind: type[M]) -> M:
        data = await _read(request)
        try:
            return msgspec.msgpack.decode(data, type=kind)
        except msgspec.MsgspecError as error:
            raise Refusal(400, f"the body cannot be read: {error}") from None


def make_worker_api(db: Database, settings: Settings) -> Starlette:
    """The ASGI application with these endpoints, on an open database."""
    logs = ReceivedLogs(
        settings.logs_folder, limit=settings.core.max_log_bytes, uploaded=settings.logs.remote is not None
    )
    lease, grace = settings.executor.worker_lease, settings.core.killed_task_cleanup_time
    confs = SecretConfs(Keyring.of(settings))
    api = WorkerApi(db, services_of(db, settings), logs, CodeArchives(db, settings), confs, lease, grace)
    names = ("starts", "code", "heartbeat", "xcoms", "call", "log", "reports")
    routes = [Route(f"{PREFIX}/{name}", _guarded(getattr(api, name)), methods=["POST"]) for name in names]
    probes = [Route("/livez", _guarded(api.livez)), Route("/readyz", _guarded(api.readyz))]  # of the role worker-api
    return Starlette(routes=[*routes, *probes])


def _guarded(endpoint: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except Refusal as refusal:
            return Response(str(refusal), refusal.status, media_type="text/plain")
        except Exception as error:
            if not _is_passing(error):
                logger.exception("the worker API failed: %s", request.url.path)
                return Response(f"{type(error).__name__}: {error}", 500, media_type="text/plain")
            return Response(f"ask again: {error}", 503, media_type="text/plain")

    return answer


def _is_passing(error: Exception) -> bool:
    """Whether the same question may be answered later."""
    return is_retryable(error) or isinstance(error, TimedOut)


def _shown(error: Exception) -> str:
    return str(error) if kind_of(error) else f"{type(error).__name__}: {error}"


async def _read(request: Request) -> bytes:
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > MOST_BODY:
            raise Refusal(413, f"a body may have {MOST_BODY:,} bytes")
    return bytes(data)


def _answer(message: msgspec.Struct) -> Response:
    return Response(_encode(message), media_type=MEDIA_TYPE)


def _gone() -> Refusal:
    return Refusal(410, "the attempt has ended, or its worker's lease has")
