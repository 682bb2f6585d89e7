"""The messages between workers on engines and the worker API. All are msgpack maps.

An engine carries a `Job` to a worker. The worker claims the start of its attempt, and from then on renews its lease,
asks what the task asks, sends parts of the log, and at last the report. Source:
docs/decisions/0036-attempts-on-engines.md.
"""

from __future__ import annotations

from typing import Annotated, Any, Final
from uuid import UUID

import msgspec

from aiosched.core.values.messages import Attempt, Report, XComPairs, XComRef

PREFIX: Final = "/worker/v1"
MEDIA_TYPE: Final = "application/msgpack"
MOST_ATTEMPTS: Final = 200  # in one request
LONGEST_TOKEN: Final = 500

Token = Annotated[str, msgspec.Meta(max_length=LONGEST_TOKEN)]
Tokens = Annotated[list[Token], msgspec.Meta(min_length=1, max_length=MOST_ATTEMPTS)]


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine carries for one attempt: enough to claim its start, and nothing secret but its token.

    `urls` are addresses of the worker API, one as good as the other. `queue` and `executor_config` are those of the
    task. `title` is for people.
    """

    id: int
    token: str
    urls: tuple[str, ...]
    queue: str = "default"
    title: str = ""
    is_async: bool = False
    executor_config: dict[str, Any] = {}
    team: str | None = None  # of its DAG

    @property
    def name(self) -> str:
        """The name of the attempt on the engine: the same each time that it is sent."""
        return f"aiosched-{self.id}"


class StartClaims(msgspec.Struct, frozen=True, kw_only=True):
    """A worker wants to begin the attempts of these tokens. `worker` is an id that it has made up and keeps."""

    worker: str
    hostname: str
    pid: int
    tokens: Tokens


class StartAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The attempt to begin; None if it may not begin here, with the reason as `refusal`.

    `log_offset`: where this call's part of the log begins, in bytes.
    """

    attempt: Attempt | None = None
    log_offset: int = 0
    refusal: str = ""


class StartAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """In the order of the tokens; and how long the worker may be silent: seconds, counted from when it asked."""

    answers: list[StartAnswer]
    lease: float


class WorkerHeartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """A worker is alive, and runs the attempts of these tokens."""

    worker: str
    tokens: Tokens


class AttemptStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of an attempt: `gone`: it has been given up. `stop_grace`: it is to end within as many seconds."""

    gone: bool = False
    stop_grace: int | None = None


class WorkerHeartbeatAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """In the order of the tokens. The lease is renewed for as many seconds from when the worker asked."""

    attempts: list[AttemptStatus]
    lease: float


class CodeCall(msgspec.Struct, frozen=True, kw_only=True):
    """A worker needs the code of an attempt that it runs: the version of its bundle, as a zip archive."""

    worker: str


class XComCall(msgspec.Struct, frozen=True, kw_only=True):
    """A running task requests XComs of its run."""

    worker: str
    refs: list[XComRef]


class XComResult(msgspec.Struct, frozen=True, kw_only=True):
    """For each ref what is stored; `error` instead, for the task."""

    pairs: list[XComPairs] = []
    error: str | None = None


class ServiceCall(msgspec.Struct, frozen=True, kw_only=True):
    """A running task calls a service by name. `id` is the same when the call is repeated."""

    worker: str
    id: UUID
    name: str
    args: str  # JSON


class ServiceResult(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON answer; or an `error` for the task, of a `kind` (see service_errors.py)."""

    answer: str = ""
    error: str | None = None
    kind: str = ""


class FinalReport(msgspec.Struct, frozen=True, kw_only=True):
    """The final report of the attempt of a token, and the last part of its log with its place in bytes."""

    token: Token
    report: Report
    log: bytes = b""
    log_offset: int = 0


class FinalReports(msgspec.Struct, frozen=True, kw_only=True):
    """Final reports of a worker."""

    worker: str
    reports: Annotated[list[FinalReport], msgspec.Meta(max_length=MOST_ATTEMPTS)]


class FinalReportsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """For each report whether it was stored; if not, the attempt had ended before, by this report or another one."""

    stored: list[bool]
