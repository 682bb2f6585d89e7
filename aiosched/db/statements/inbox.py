"""The inboxes: how other processes send requests to the owner of a partition.

A request is a row in `command` (its answer is in the audit log, too), a report of a remote worker a row in
`task_report`; a coalesced NOTIFY wakes the owner. The NOTIFY is sent outside the hot transaction and may get lost:
owners also poll their inbox every `safety_poll` seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from aiosched.core.audit.actor import actor
from aiosched.core.audit.kinds import AuditKind
from aiosched.core.requests.requests import EmitAsset, Request
from aiosched.core.requests.stored import encode
from aiosched.core.values.ids import partition_of
from aiosched.db.audit.entries import record
from aiosched.db.crypto.keyring import Keyring
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import is_retryable
from aiosched.db.server.request_answers import APPLIED_CHANNEL, read_numbers
from aiosched.db.statements.conf_params import protected
from aiosched.errors import AioschedError, InternalError, NotFound, Refused, StaleRows

logger = logging.getLogger(__name__)

NOTIFY_CHANNEL: Final = "aiosched_news"  # payload: "<kind> <partition>,<partition>…"

_ERRORS: Final[Mapping[int, type[AioschedError]]] = {kind.exit_code: kind for kind in (NotFound, InternalError)}
MOST_CHARACTERS: Final = 1_000_000  # of the arguments of a request, as JSON
POLL_SECONDS: Final = 1.0
_IDS_PER_NOTIFY: Final = 390  # a payload has less than 8000 bytes, an id up to 19 digits


@dataclass(frozen=True, slots=True)
class Command:
    """A waiting request. `args` depends on the verb, see `aiosched.core.requests`; whoever wrote the row chose it.

    `attempts` is how often an owner has begun to apply it and did not finish. `dag` is what parsing last stored about
    the DAG: its newest version, and whether it is stale or has import errors; None for each if there is no such DAG.
    """

    id: int
    dag_id: str | None
    verb: str
    args: Any  # a JSON object, else it is refused; None: it cannot be read
    requested_by: str
    attempts: int
    dag: tuple[int | None, bool | None, bool | None]


class NewRequest(NamedTuple):
    """A request that an owner makes while it applies another one."""

    dag_id: str
    verb: str
    args: Mapping[str, Any]
    requested_by: str
    reason: str


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a request: `applied` with the verb's result, or `refused` with {"error": …}."""

    state: str
    result: dict[str, Any]

    @property
    def error(self) -> AioschedError | None:
        """The error to raise for a request that was not carried out, None if it was."""
        if self.state != "refused":
            return None
        code = self.result.get("exit_code")
        code = code if isinstance(code, int) else Refused.exit_code
        error = _ERRORS.get(code, Refused)(str(self.result.get("error", "refused")))
        error.exit_code = code
        return error

    @property
    def is_bug(self) -> bool:
        """Whether it failed because of a bug in aiosched."""
        return isinstance(self.error, InternalError)


async def notify(conn: DatabaseConnection, kind: str, partitions: Iterable[int]) -> None:
    """Wake the owners of `partitions` (empty: all); kind is dags, commands, reports, attempts, assets or pools.

    For kind slots the numbers are incarnations instead: a pool has slots for them.
    """
    payload = f"{kind} {','.join(map(str, sorted(set(partitions))))}"
    await conn.execute("SELECT pg_notify($1, $2)", NOTIFY_CHANNEL, payload)


def read_notification(payload: str) -> tuple[str, frozenset[int]]:
    """The kind and the partitions of a NOTIFY payload; no partitions means all.

    What is not a number (a newer aiosched may append something) is ignored.
    """
    kind, _, numbers = payload.partition(" ")
    return kind, frozenset(read_numbers(numbers))


# A repeated request finds its row, and waits for a transaction that may be inserting the first one. Index:
# ix_command_request_id.
ADD_COMMAND: Final = """
    INSERT INTO command (partition, dag_id, verb, args, requested_by, reason, request_id, address, session_id, token_id)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
    ON CONFLICT (request_id) WHERE request_id IS NOT NULL DO UPDATE SET request_id = excluded.request_id
    RETURNING id
"""


async def add_command(
    conn: DatabaseConnection,
    *,
    verb: str,
    dag_id: str | None,
    args: Mapping[str, Any],
    requested_by: str,
    reason: str | None = None,
    partition: int | None = None,
    request: UUID | None = None,
    keyring: Keyring | None = None,
) -> int:
    """Send a request to the owner of `dag_id` (or of `partition`) and wake it; returns the request's number.

    Call it outside a transaction, or commit at once: the NOTIFY is sent at the commit. Two calls with the same
    `request` send it once. `keyring` encrypts the secret values of a conf.
    """
    if dag_id is not None:
        partition = partition_of(dag_id)
        args = await protected(conn, dag_id, args, keyring)
    try:
        document = msgspec.json.encode(args).decode()
    except UnicodeEncodeError as error:
        problem = "text with characters that are not Unicode (lone surrogates): replace them"
        raise Refused(f"The request {verb!r} has {problem}.") from error
    if len(document) > MOST_CHARACTERS:
        raise Refused(
            f"The request {verb!r} has {len(document):,} characters, allowed are {MOST_CHARACTERS:,}: "
            "store the data elsewhere and pass a reference."
        )
    by = actor()
    command_id: int = await conn.fetchval(
        ADD_COMMAND, partition, dag_id, verb, document, requested_by, reason, request, by.address, by.session, by.token
    )
    await notify(conn, "commands", () if partition is None else (partition,))
    return command_id


async def add_requests(conn: DatabaseConnection, requests: Iterable[NewRequest]) -> None:
    """Send requests in the transaction that stores what led to them; their owners are woken by its commit."""
    for new in requests:
        await add_command(
            conn,
            verb=new.verb,
            dag_id=new.dag_id,
            args=new.args,
            requested_by=new.requested_by,
            reason=new.reason,
        )


# Index: ix_command_request_id.
FIND_COMMAND: Final = "SELECT id FROM command WHERE request_id = $1"


async def find_command(conn: DatabaseConnection, request: UUID) -> int | None:
    """The number of the request with this id, None if there is none yet."""
    number: int | None = await conn.fetchval(FIND_COMMAND, request)
    return number


# Index: ix_command_waiting (partial). In the order in which they were made.
WAITING_COMMANDS: Final = """
    SELECT c.id, c.dag_id, c.verb, c.args, c.requested_by, c.attempts, d.version_id, d.is_stale, d.has_import_errors
      FROM command AS c LEFT JOIN dag AS d ON d.dag_id = c.dag_id
     WHERE c.state = 'waiting' AND c.partition = ANY($1::smallint[])
     ORDER BY c.id LIMIT $2
"""


async def waiting_commands(conn: DatabaseConnection, partitions: Sequence[int], *, limit: int) -> list[Command]:
    """The oldest waiting requests to the owner of `partitions`."""
    rows = await conn.fetch(WAITING_COMMANDS, list(partitions), limit)
    return [
        Command(
            row["id"],
            row["dag_id"],
            row["verb"],
            _arguments(row["args"]),
            row["requested_by"],
            row["attempts"],
            (row["version_id"], row["is_stale"], row["has_import_errors"]),
        )
        for row in rows
    ]


def _arguments(document: str) -> Any:
    """The arguments of a request; None if they cannot be read: then it is refused."""
    try:
        return msgspec.json.decode(document)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


# Guard: still waiting.
COUNT_ATTEMPTS: Final = """
    UPDATE command AS c SET attempts = a.attempts
      FROM unnest($1::bigint[], $2::smallint[]) AS a (id, attempts)
     WHERE c.id = a.id AND c.state = 'waiting'
"""


async def count_attempts(conn: DatabaseConnection, attempts: Mapping[int, int]) -> None:
    """Store how often each request (by number) has been begun; committed before it is applied."""
    await conn.execute(COUNT_ATTEMPTS, list(attempts), list(attempts.values()))


# Guard: still waiting, so that a request is answered once.
ANSWER_COMMANDS: Final = """
    UPDATE command AS c
       SET state = a.state, result = a.result::json, applied_by = $4, applied_at = now()
      FROM unnest($1::bigint[], $2::text[], $3::text[]) AS a (id, state, result)
     WHERE c.id = a.id AND c.state = 'waiting'
"""


async def answer_commands(
    conn: DatabaseConnection, answers: Sequence[tuple[int, CommandResult]], *, incarnation: int
) -> None:
    """Store the results of requests, in the transaction that applies them.

    Raises StaleRows, which rolls that transaction back, if one of them no longer waits because it was withdrawn.
    """
    status = await conn.execute(
        ANSWER_COMMANDS,
        [command_id for command_id, _ in answers],
        [answer.state for _, answer in answers],
        [msgspec.json.encode(answer.result).decode() for _, answer in answers],
        incarnation,
    )
    if status != f"UPDATE {len(answers)}":
        numbers = ", ".join(str(command_id) for command_id, _ in answers)
        raise StaleRows(f"A request was withdrawn while it was applied: one of {numbers}")


# Guard: still waiting. Index: the primary key.
WITHDRAW_COMMAND: Final = """
    UPDATE command SET state = 'refused', result = $2::json, applied_at = now()
     WHERE id = $1 AND state = 'waiting' RETURNING id
"""


async def withdraw_command(conn: DatabaseConnection, command_id: int, *, by: str, reason: str | None = None) -> None:
    """Take back a request that waits, so that no owner applies it. Call it outside a transaction.

    Raises NotFound, and Refused for a request that was answered already.
    """
    error = f"withdrawn by {by}" + (f": {reason}" if reason else "")
    result = {"error": error, "exit_code": Refused.exit_code, "withdrawn_by": by}
    if await conn.fetchval(WITHDRAW_COMMAND, command_id, msgspec.json.encode(result).decode()) is None:
        answer = await read_answer(conn, command_id)
        if answer is None:
            raise NotFound(f"There is no request {command_id}; see `aiosched requests list`.")
        raise Refused(f"Request {command_id} was {answer.state} already; see `aiosched requests show {command_id}`.")
    await record(conn, AuditKind.REQUEST_WITHDRAWN, str(command_id), by=replace(actor(), who=by), reason=reason)
    await announce_applied(conn, [command_id])


async def announce_applied(conn: DatabaseConnection, ids: Sequence[int]) -> None:
    """Notify the clients that wait for these requests; call it after the commit."""
    for start in range(0, len(ids), _IDS_PER_NOTIFY):
        batch = ids[start : start + _IDS_PER_NOTIFY]
        await conn.execute("SELECT pg_notify($1, $2)", APPLIED_CHANNEL, ",".join(map(str, batch)))


READ_RESULT: Final = "SELECT state, result FROM command WHERE id = $1"


async def read_answer(conn: DatabaseConnection, command_id: int) -> CommandResult | None:
    """The answer to a request, None while it waits (or if there is no such request)."""
    row = await conn.fetchrow(READ_RESULT, command_id)
    if row is None or row["state"] == "waiting":
        return None
    result = msgspec.json.decode(row["result"] or "{}")
    return CommandResult(row["state"], result if isinstance(result, dict) else {})


async def wait_applied(db: Database, command_id: int, *, timeout: float) -> CommandResult | None:
    """The answer to a request, or None if there was none within `timeout` seconds, or before `db` was closed.

    All waiters share one connection that listens (with a pooler, which cannot listen, there is none), and each polls
    once a second in case the notification was lost. They wait while the database is briefly unreachable: the request is
    stored.
    """
    answer: CommandResult | None = None
    with db.answers.awaited(command_id) as notified, contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout):
            while True:
                last = db.answers.closing
                notified.clear()
                answer = await _poll_answer(db, command_id)
                if last or answer is not None:
                    break
                db.answers.listen()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await notified.wait()
    return answer


async def _poll_answer(db: Database, command_id: int) -> CommandResult | None:
    """The answer, or None while there is none or the database is not reachable."""
    try:
        async with db.acquire() as conn:
            return await read_answer(conn, command_id)
    except Exception as error:
        if not is_retryable(error):
            raise
        logger.warning("request %d waits for its answer: %s", command_id, error)
        return None


class OwnerAnswer(NamedTuple):
    """The answer to a request: its number, and its result, or None while it still waits."""

    command: int
    result: dict[str, Any] | None


async def ask_owner(
    db: Database,
    request: Request,
    dag_id: str | None,
    *,
    requested_by: str,
    timeout: float,
    reason: str | None = None,
    keyring: Keyring | None = None,
) -> OwnerAnswer:
    """Send a request to the owner of `dag_id` (None: of an asset), and wait `timeout` seconds for its answer.

    Without one the request stays in the inbox, and is applied when a scheduler is available. `reason` is kept in the
    audit log, `keyring` encrypts the secrets of a conf. Raises NotFound, Refused or InternalError with the
    owner's message.
    """
    verb, args = encode(request)
    async with db.acquire() as conn:
        number = await add_command(
            conn,
            verb=verb,
            dag_id=dag_id,
            args=args,
            requested_by=requested_by,
            reason=reason,
            partition=partition_of(request.name) if isinstance(request, EmitAsset) else None,
            keyring=keyring,
        )
    answer = await wait_applied(db, number, timeout=timeout)
    if answer is None:
        return OwnerAnswer(number, None)
    if answer.error is not None:
        raise answer.error
    return OwnerAnswer(number, answer.result)
