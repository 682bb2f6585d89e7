"""The inboxes: how other processes send requests to the owner of a partition.

A request is a row of `request` (its answer is in the audit log, too), a report of a remote worker a row in
`task_report`; a coalesced NOTIFY wakes the owner. The NOTIFY is sent outside the hot transaction and may get lost:
owners also poll their inbox every `safety_poll` seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID, uuid5

import msgspec

from aiosched.core.audit.actor import actor
from aiosched.core.audit.kinds import AuditKind
from aiosched.core.requests.requests import EmitAsset, Request
from aiosched.core.requests.stored import encode
from aiosched.core.values.ids import partition_of
from aiosched.core.values.secret_values import plain
from aiosched.db.audit.entries import record
from aiosched.db.crypto.keyring import Keyring
from aiosched.db.crypto.secret_confs import SecretConfs
from aiosched.db.server.connection import DatabaseConnection, Queryable
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import is_of_database
from aiosched.db.server.request_answers import APPLIED_CHANNEL, read_numbers
from aiosched.db.statements.conf_params import protected
from aiosched.errors import (
    AioschedError,
    ConfigError,
    InternalError,
    NotAnswered,
    NotFound,
    NumbersInUse,
    Refused,
    StaleRows,
)

logger: logging.Logger = logging.getLogger(__name__)

T = TypeVar("T")

NOTIFY_CHANNEL: Final = "aiosched_news"  # payload: "<kind> <partition>,<partition>…"

_ERRORS: Final[Mapping[int, type[AioschedError]]] = {kind.exit_code: kind for kind in (NotFound, InternalError)}
MOST_CHARACTERS: Final = 1_000_000  # of the arguments of a request, as JSON
MOST_KEY: Final = 250  # characters of the key of a request
_KEYED: Final = UUID("2b0d3c4e-7a1f-4d53-9e0b-6f5c8a9b1d22")
POLL_SECONDS: Final = 1.0
_IDS_PER_NOTIFY: Final = 390  # a payload has less than 8000 bytes, an id up to 19 digits


@dataclass(frozen=True, slots=True)
class WaitingRequest:
    """A waiting request. `args` depends on the `verb`, see `aiosched.core.requests`; whoever wrote the row chose it.

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
class RequestResult:
    """The result of a request: `applied` with what the request returns, or `refused` with {"error": …}."""

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


async def notify(conn: Queryable, kind: str, partitions: Iterable[int]) -> None:
    """Wake the owners of `partitions` (empty: all); kind is dags, requests, reports, attempts, assets or pools.

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
# ix_request_idempotency_key.
SEND_REQUEST: Final = """
    INSERT INTO request
           (partition, dag_id, verb, args, requested_by, reason, idempotency_key, address, session_id, token_id)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
    ON CONFLICT (idempotency_key) WHERE idempotency_key IS NOT NULL
    DO UPDATE SET idempotency_key = excluded.idempotency_key
    RETURNING id
"""


async def send_request(
    conn: DatabaseConnection,
    *,
    verb: str,
    dag_id: str | None,
    args: Mapping[str, Any],
    requested_by: str,
    reason: str | None = None,
    partition: int | None = None,
    idempotency_key: UUID | None = None,
    key: str | None = None,
    keyring: Keyring | None = None,
) -> int:
    """Send a request to the owner of `dag_id` (or of `partition`) and wake it; returns the request's number.

    Call it outside a transaction, or commit at once: the NOTIFY is sent at the commit. Two calls with the same
    `idempotency_key`, or with the same `key` of `requested_by`, send it once: Refused if the second one is another
    request. `keyring` encrypts the secret values of a conf.
    """
    given = args
    if dag_id is not None:
        partition = partition_of(dag_id)
        (args,) = await protected(conn, dag_id, [args], keyring)
    if key is not None:
        idempotency_key = keyed_request(requested_by, key)
    document, by = document_of(verb, args), actor()
    number: int = await conn.fetchval(
        SEND_REQUEST,
        partition,
        dag_id,
        verb,
        document,
        requested_by,
        reason,
        idempotency_key,
        by.address,
        by.session,
        by.token,
    )
    if key is not None:
        stored = await conn.fetchrow(SAME_REQUEST, number)
        if stored is None or not _is_same(stored, (verb, dag_id, partition, given), keyring):
            raise other_request(key)
    await notify(conn, "requests", () if partition is None else (partition,))
    return number


def keyed_request(requested_by: str, key: str) -> UUID:
    """The key in the row of the request that `requested_by` sends with this key. Raises Refused for its length."""
    if not 0 < len(key) <= MOST_KEY:
        raise Refused(f"The key of a request has 1 to {MOST_KEY} characters, not {len(key)}.")
    return uuid5(_KEYED, f"{requested_by}\0{key}")


def other_request(key: str) -> Refused:
    """The error for a key that was used for something else."""
    return Refused(f"The key {key!r} was sent with another request before: give each request its own.")


SAME_REQUEST: Final = "SELECT verb, dag_id, partition, args FROM request WHERE id = $1"


def _is_same(stored: Any, sent: tuple[str, str | None, int | None, Any], keyring: Keyring | None) -> bool:
    """Whether a stored request says what was sent; a secret is encrypted differently each time."""
    (*place, document), (*sent_place, args) = stored, sent
    confs = SecretConfs(keyring or Keyring())

    def opened(found: Any) -> Any:
        found = msgspec.json.decode(msgspec.json.encode(found))
        return found | {"conf": plain(confs.open(found["conf"]))} if isinstance(found.get("conf"), dict) else found

    try:
        return bool(place == sent_place and opened(_arguments(document)) == opened(args))
    except (ConfigError, Refused, AttributeError):  # no key decrypts it
        return False


def document_of(verb: str, args: Mapping[str, Any]) -> str:
    """The arguments as they are stored. Raises Refused."""
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
    return document


# In their order: that of the arguments is that of the ids.
SEND_REQUESTS: Final = """
    INSERT INTO request (partition, dag_id, verb, args, requested_by, reason, address, session_id, token_id)
    SELECT $1, $2, $3, args::json, $5, $6, $7, $8, $9 FROM unnest($4::text[]) WITH ORDINALITY AS a (args, number)
     ORDER BY number
    RETURNING id
"""


async def send_requests(
    conn: DatabaseConnection,
    dag_id: str,
    verb: str,
    all_args: Sequence[Mapping[str, Any]],
    *,
    requested_by: str,
    reason: str | None = None,
    keyring: Keyring | None = None,
) -> list[int]:
    """As `send_request`, for many requests of one kind to the owner of a DAG; returns their numbers, in their order."""
    documents = [document_of(verb, args) for args in await protected(conn, dag_id, all_args, keyring)]
    partition, by = partition_of(dag_id), actor()
    place = (partition, dag_id, verb, documents, requested_by, reason, by.address, by.session, by.token)
    numbers = sorted(row["id"] for row in await conn.fetch(SEND_REQUESTS, *place))
    await notify(conn, "requests", (partition,))
    return numbers


async def send_following(conn: DatabaseConnection, requests: Iterable[NewRequest]) -> None:
    """Send requests in the transaction that stores what led to them; their owners are woken by its commit."""
    for new in requests:
        await send_request(
            conn,
            verb=new.verb,
            dag_id=new.dag_id,
            args=new.args,
            requested_by=new.requested_by,
            reason=new.reason,
        )


# Index: ix_request_idempotency_key.
FIND_REQUEST: Final = "SELECT id FROM request WHERE idempotency_key = $1"


async def find_request(conn: DatabaseConnection, idempotency_key: UUID) -> int | None:
    """The number of the request with this key, None if there is none yet."""
    number: int | None = await conn.fetchval(FIND_REQUEST, idempotency_key)
    return number


# Index: ix_request_waiting (partial). In the order in which they were made.
WAITING_REQUESTS: Final = """
    SELECT r.id, r.dag_id, r.verb, r.args, r.requested_by, r.attempts, d.version_id, d.is_stale, d.has_import_errors
      FROM request AS r LEFT JOIN dag AS d ON d.dag_id = r.dag_id
     WHERE r.state = 'waiting' AND r.partition = ANY($1::smallint[])
     ORDER BY r.id LIMIT $2
"""


async def waiting_requests(conn: Queryable, partitions: Sequence[int], *, limit: int) -> list[WaitingRequest]:
    """The oldest waiting requests to the owner of `partitions`."""
    rows = await conn.fetch(WAITING_REQUESTS, list(partitions), limit)
    return [
        WaitingRequest(
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


# "waiting", but not in the words of ix_request_waiting: that index has no rows when it is analysed, so each row of a
# batch would be looked for among all that wait.
_STILL_WAITS: Final = "r.state NOT IN ('applied', 'refused')"
# Guard: still waiting. Index: the primary key.
COUNT_ATTEMPTS: Final = f"""
    UPDATE request AS r SET attempts = a.attempts
      FROM unnest($1::bigint[], $2::smallint[]) AS a (id, attempts)
     WHERE r.id = a.id AND {_STILL_WAITS}
"""


async def count_attempts(conn: Queryable, attempts: Mapping[int, int]) -> None:
    """Store how often each request (by number) has been begun; committed before it is applied."""
    await conn.execute(COUNT_ATTEMPTS, list(attempts), list(attempts.values()))


# Guard: still waiting, so that a request is answered once. Index: the primary key.
ANSWER_REQUESTS: Final = f"""
    UPDATE request AS r
       SET state = a.state, result = a.result::json, applied_by = $4, applied_at = now()
      FROM unnest($1::bigint[], $2::text[], $3::text[]) AS a (id, state, result)
     WHERE r.id = a.id AND {_STILL_WAITS}
"""


async def answer_requests(
    conn: DatabaseConnection, answers: Sequence[tuple[int, RequestResult]], *, incarnation: int
) -> None:
    """Store the results of requests, in the transaction that applies them.

    Raises StaleRows, which rolls that transaction back, if one of them no longer waits because it was withdrawn.
    """
    status = await conn.execute(
        ANSWER_REQUESTS,
        [number for number, _ in answers],
        [answer.state for _, answer in answers],
        [msgspec.json.encode(answer.result).decode() for _, answer in answers],
        incarnation,
    )
    if status != f"UPDATE {len(answers)}":
        numbers = ", ".join(str(number) for number, _ in answers)
        raise StaleRows(f"A request was withdrawn while it was applied: one of {numbers}")


# Guard: still waiting. Index: the primary key.
WITHDRAW_REQUEST: Final = """
    UPDATE request SET state = 'refused', result = $2::json, applied_at = now()
     WHERE id = $1 AND state = 'waiting' RETURNING id
"""


async def withdraw_request(conn: DatabaseConnection, number: int, *, by: str, reason: str | None = None) -> None:
    """Take back a request that waits, so that no owner applies it. Call it outside a transaction.

    Raises NotFound, and Refused for a request that was answered already.
    """
    error = f"withdrawn by {by}" + (f": {reason}" if reason else "")
    result = {"error": error, "exit_code": Refused.exit_code, "withdrawn_by": by}
    if await conn.fetchval(WITHDRAW_REQUEST, number, msgspec.json.encode(result).decode()) is None:
        answer = await read_answer(conn, number)
        if answer is None:
            raise NotFound(f"There is no request {number}; see `aiosched requests list`.")
        raise Refused(f"Request {number} was {answer.state} already; see `aiosched requests show {number}`.")
    await record(conn, AuditKind.REQUEST_WITHDRAWN, str(number), by=replace(actor(), who=by), reason=reason)
    await announce_applied(conn, [number])


async def announce_applied(conn: Queryable, ids: Sequence[int]) -> None:
    """Notify the clients that wait for these requests; call it after the commit."""
    for start in range(0, len(ids), _IDS_PER_NOTIFY):
        batch = ids[start : start + _IDS_PER_NOTIFY]
        await conn.execute("SELECT pg_notify($1, $2)", APPLIED_CHANNEL, ",".join(map(str, batch)))


DAG_OF_REQUEST: Final = "SELECT dag_id FROM request WHERE id = $1"


async def dag_of_request(conn: Queryable, number: int) -> str | None:
    """The DAG that a request is about; None for one about no DAG."""
    dag_id: str | None = await conn.fetchval(DAG_OF_REQUEST, number)
    return dag_id


HAS_REQUEST: Final = "SELECT EXISTS (SELECT FROM request WHERE id = $1)"
READ_RESULTS: Final = "SELECT id, state, result FROM request WHERE id = ANY($1::bigint[]) AND state <> 'waiting'"


async def read_answer(conn: DatabaseConnection, number: int) -> RequestResult | None:
    """The answer to a request, None while it waits (or if there is no such request)."""
    return (await read_answers(conn, [number])).get(number)


async def read_answers(conn: Queryable, numbers: Sequence[int]) -> dict[int, RequestResult]:
    """The answers to those of the requests that do not wait any more."""
    found = {}
    for number, state, result in await conn.fetch(READ_RESULTS, numbers):
        value = msgspec.json.decode(result or "{}")
        found[number] = RequestResult(state, value if isinstance(value, dict) else {})
    return found


async def wait_applied(db: Database, number: int, *, timeout: float, is_new: bool = False) -> RequestResult | None:
    """The answer to a request, or None if there was none within `timeout` seconds, or before `db` was closed."""
    return (await wait_all_applied(db, [number], timeout=timeout, is_new=is_new)).get(number)


async def wait_all_applied(
    db: Database, numbers: Sequence[int], *, timeout: float, is_new: bool = False
) -> dict[int, RequestResult]:
    """The answers to requests by their ids, as far as they come within `timeout` seconds, and before `db` is closed.

    All waiters share one connection that listens (with a pooler, which cannot listen, there is none), and each polls
    once a second in case the notification was lost. They wait while the database is briefly unreachable: the request is
    stored. `is_new`: they were sent just now, so that there can be no answer that was announced long ago.
    """
    answers: dict[int, RequestResult] = {}
    with db.answers.awaited(numbers) as notified, contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout):
            if is_new and all(map(db.answers.will_tell, numbers)):
                await _notified(notified)
            while True:
                last = db.answers.closing
                notified.clear()
                answers |= await _poll_answers(db, [number for number in numbers if number not in answers])
                if last or len(answers) == len(numbers):
                    break
                db.answers.listen()
                await _notified(notified)
    return answers


async def _notified(notified: asyncio.Event) -> None:
    """Returns when an answer was announced, and when it is time to look whether one was without our hearing of it."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(POLL_SECONDS):
            await notified.wait()


async def _poll_answers(db: Database, numbers: Sequence[int]) -> dict[int, RequestResult]:
    """The answers that there are; none if the database is not reachable."""
    try:
        return await read_answers(db, numbers)
    except Exception as error:
        if not is_of_database(error):
            raise
        which = str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} and {len(numbers) - 1} others"
        logger.warning("request %s waits for its answer: %s", which, error)
        return {}


class OwnerAnswer(NamedTuple):
    """The answer to a request: its number, and its result, or None while it still waits."""

    number: int
    result: dict[str, Any] | None


async def _added(db: Database, adding: Callable[[DatabaseConnection], Awaitable[T]]) -> T:
    try:
        async with db.acquire() as conn:
            return await adding(conn)
    except NumbersInUse:  # not any more
        async with db.acquire() as conn:
            return await adding(conn)


async def ask_owner(
    db: Database,
    request: Request,
    dag_id: str | None,
    *,
    requested_by: str,
    timeout: float,
    keyring: Keyring | None = None,
) -> OwnerAnswer:
    """Send a request to the owner of `dag_id` (None: of an asset), and wait `timeout` seconds for its answer.

    Without one the request stays in the inbox, and is applied when a scheduler is available. `keyring` encrypts the
    secrets of a conf. Raises NotFound, Refused or InternalError with the owner's message.
    """
    verb, args = encode(request)
    adding = partial(
        send_request,
        verb=verb,
        dag_id=dag_id,
        args=args,
        requested_by=requested_by,
        reason=request.reason,
        partition=partition_of(request.name) if isinstance(request, EmitAsset) else None,
        key=request.key,
        keyring=keyring,
    )
    number = await _added(db, adding)
    found = await wait_applied(db, number, timeout=timeout, is_new=request.key is None)
    answer = _owner_answer(number, found)
    if isinstance(answer, AioschedError):
        raise answer
    return answer


async def outcome(db: Database, number: int, *, timeout: float) -> dict[str, Any]:
    """The answer to a stored request. Raises the owner's error, and NotAnswered after `timeout` seconds.

    NotFound at once if there is none: whoever sent it in a transaction asks after the commit.
    """
    if await _is_there(db, number):
        answer = await wait_applied(db, number, timeout=timeout)
        if answer is not None:
            if answer.error is not None:
                raise answer.error
            return answer.result
        if await _is_there(db, number):
            raise NotAnswered(number)
    raise NotFound(
        f"There is no request {number}: its transaction was rolled back, or has not committed yet. "
        "See `aiosched requests list`."
    )


async def _is_there(db: Database, number: int) -> bool:
    """Whether there is a request; while the database is not reachable, there may be."""
    try:
        return bool(await db.fetchval(HAS_REQUEST, number))
    except Exception as error:
        if not is_of_database(error):
            raise
        return True


async def ask_owner_many(
    db: Database,
    requests: Sequence[Request],
    dag_id: str,
    *,
    requested_by: str,
    timeout: float,
    keyring: Keyring | None = None,
) -> list[OwnerAnswer | AioschedError]:
    """As `ask_owner`, for many requests of one kind with one reason; of one that is refused the error."""
    encoded = [encode(request) for request in requests]

    async def add_each(conn: DatabaseConnection) -> list[int | AioschedError]:
        found: list[int | AioschedError] = []
        for (verb, args), request in zip(encoded, requests, strict=True):
            adding = send_request(
                conn, verb=verb, dag_id=dag_id, args=args, requested_by=requested_by, reason=request.reason,
                key=request.key, keyring=keyring,
            )  # fmt: skip
            try:
                found.append(await adding)
            except Refused as error:
                found.append(error)
        return found

    add_together = partial(
        send_requests,
        dag_id=dag_id,
        verb=encoded[0][0],
        all_args=[args for _, args in encoded],
        requested_by=requested_by,
        reason=requests[0].reason,
        keyring=keyring,
    )
    is_new = all(request.key is None for request in requests)
    added: Sequence[int | AioschedError]
    added = await _added(db, add_together) if is_new else await _added(db, add_each)
    numbers = [one for one in added if isinstance(one, int)]
    answers = await wait_all_applied(db, numbers, timeout=timeout, is_new=is_new)
    return [_owner_answer(one, answers.get(one)) if isinstance(one, int) else one for one in added]


def _owner_answer(number: int, answer: RequestResult | None) -> OwnerAnswer | AioschedError:
    return OwnerAnswer(number, None) if answer is None else answer.error or OwnerAnswer(number, answer.result)
