"""Errors as `application/problem+json` (RFC 9457) with stable codes.

Programs can rely on `code`; `detail` is for people and names the remedy. Each error class of `aiosched.errors` has its
status here, so endpoints raise the same errors as the rest of aiosched.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel
from sqlalchemy.exc import DBAPIError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from aiosched.core.audit.actor import PROCESS, actor
from aiosched.core.audit.kinds import AuditKind, Result
from aiosched.db.audit.entries import NewEntry
from aiosched.db.audit.repeated import record_repeated
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import DRIVER_ERRORS, explain, is_of_database, unwrapped
from aiosched.errors import (
    AioschedError,
    ChangedMeanwhile,
    ConfigError,
    DagError,
    DatabaseError,
    InternalError,
    NotFound,
    Refused,
    RemoteStorageError,
    TimedOut,
)

logger: logging.Logger = logging.getLogger(__name__)

MEDIA_TYPE: Final = "application/problem+json"
_METHODS: Final = ("DELETE", "GET", "PATCH", "POST", "PUT")

_STATUS: Final[Sequence[tuple[type[AioschedError], int, str]]] = (
    (NotFound, 404, "not-found"),
    (ChangedMeanwhile, 412, "changed-meanwhile"),
    (Refused, 409, "refused"),
    (DagError, 422, "dag-error"),
    (ConfigError, 422, "configuration"),
    (TimedOut, 504, "timed-out"),
    (DatabaseError, 503, "database"),
    (RemoteStorageError, 503, "remote-storage"),
    (InternalError, 500, "internal"),
)


class Field(BaseModel):
    """One field that is wrong in a request."""

    where: str
    message: str


class ProblemDetails(BaseModel):
    """The body of every error. `code` is stable; `fields` says what is wrong with which field of an invalid request."""

    type: str = "about:blank"
    title: str
    status: int
    code: str
    detail: str
    fields: list[Field] | None = None


class Problem(Exception):
    """An error with its status, stable code and message."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        fields: Sequence[Field] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status: int = status
        self.code: str = code
        self.detail: str = detail
        self.fields: Sequence[Field] | None = fields
        self.headers: Mapping[str, str] | None = headers

    def response(self) -> JSONResponse:
        body = ProblemDetails(
            title=HTTPStatus(self.status).phrase,
            status=self.status,
            code=self.code,
            detail=self.detail,
            fields=None if self.fields is None else list(self.fields),
        )
        content = body.model_dump(exclude_none=True)
        return JSONResponse(content, self.status, headers=dict(self.headers or {}), media_type=MEDIA_TYPE)


def problem_of(error: Exception) -> Problem:
    """The problem that answers one of our exceptions."""
    for kind, status, code in _STATUS:
        if isinstance(error, kind):
            return Problem(status, code, str(error), headers={"Retry-After": "2"} if status == 503 else None)
    return Problem(500, "internal", "Something went wrong here; the log of the web server has the details.")


def wrong_address(request: Request) -> Problem | None:
    """The problem of an address that the API does not have, or not with the request's method; None outside the API."""
    root_path = request.scope.get("root_path", "")
    scope = {"type": "http", "path": request.scope["path"], "root_path": root_path}
    methods = [
        method
        for method in _METHODS
        if any(route.matches({**scope, "method": method})[0] is Match.FULL for route in request.app.state.api)
    ]
    path = scope["path"].removeprefix(root_path)
    if not methods:
        detail = f"The API has no address {path}; see /api/v1/openapi.json."
        return Problem(404, "not-found", detail) if path.startswith("/api/") else None
    known = ", ".join(methods)
    detail = f"{path} has no {request.method}, but {known}; see /api/v1/openapi.json."
    return Problem(405, "method-not-allowed", detail, headers={"Allow": known})


async def _note_refusal(db: Database, request: Request, problem: Problem) -> None:
    """The answer is the same if the entry cannot be written."""
    about = f"{request.method} {request.url.path}"
    dag_id = request.path_params.get("dag_id")
    entry = NewEntry(AuditKind.REFUSED, about, dag_id, Result.REFUSED, {"code": problem.code})
    try:
        await record_repeated(db, entry)
    except Exception as error:
        logger.warning("the audit log has no entry of a refusal (%s of %s): %s", about, actor().who, error)


def _is_opened(request: Request) -> bool:
    """Whether a browser asks for something that it is going to show; clients and scripts of pages ask for no HTML."""
    return request.method == "GET" and "text/html" in request.headers.get("accept", "")


def _words(error: Mapping[str, Any]) -> str:
    if error["type"] == "string_pattern_mismatch" and "\0" in error["input"]:
        return "contains a NUL character, which PostgreSQL cannot store"
    return str(error["msg"])


RESPONSES: Final[dict[int | str, dict[str, Any]]] = {"default": {"model": ProblemDetails, "description": "An error"}}


def install(app: FastAPI, db: Database, *, login_page: Callable[[Request], Response] | None = None) -> None:
    """Make `app` answer every error as a problem, and leave an entry in the audit log of what is forbidden.

    `app.state.api` has the routes of its API, without those of pages. `login_page` is the answer for somebody who opens
    an address in a browser without being logged in, as a link to a file.
    """

    async def ours(request: Request, error: Exception) -> Response:
        problem = error if isinstance(error, Problem) else problem_of(error)
        if problem.status == 401 and login_page is not None and _is_opened(request):
            return login_page(request)
        if problem.status == 403 and actor() != PROCESS:
            await _note_refusal(db, request, problem)
        return problem.response()

    async def unusable(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        fields = [Field(where=".".join(map(str, e["loc"])), message=_words(e)) for e in error.errors()]
        detail = "; ".join(f"{field.where}: {field.message}" for field in fields[:3])
        return Problem(422, "unusable-request", detail, fields=fields).response()

    async def plain(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 405 and (problem := wrong_address(request)) is not None:
            return problem.response()
        code = HTTPStatus(error.status_code).phrase.lower().replace(" ", "-")
        return Problem(error.status_code, code, str(error.detail), headers=error.headers).response()

    async def unforeseen(request: Request, error: Exception) -> Response:
        logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return problem_of(error).response()

    async def of_the_database(request: Request, error: Exception) -> Response:
        if not is_of_database(error):  # a connection to something else is one, too
            return await unforeseen(request, error)
        if (explained := explain(error, db.dsn)) is None:
            logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
            explained = DatabaseError(f"PostgreSQL at {db.where} refuses this: {unwrapped(error)}")
        return await ours(request, explained)

    for kind in (*DRIVER_ERRORS, DBAPIError, ConnectionError):
        app.add_exception_handler(kind, of_the_database)
    app.add_exception_handler(Problem, ours)
    app.add_exception_handler(AioschedError, ours)
    app.add_exception_handler(RequestValidationError, unusable)
    app.add_exception_handler(HTTPException, plain)
    app.add_exception_handler(Exception, unforeseen)
