"""The worker API by itself: who may ask what, and until when."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import httpx2
import msgspec
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from aiosched.config import Settings
from aiosched.core.values.ids import partition_of
from aiosched.core.values.messages import (
    Attempt,
    AttemptKey,
    Outcome,
    Report,
    RunInfo,
    StoredXCom,
    XComRef,
    XComValue,
)
from aiosched.core.values.worker_messages import (
    MOST_ATTEMPTS,
    CodeCall,
    FinalReport,
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
from aiosched.db.engines import workers
from aiosched.db.engines.attempts import insert_attempts, new_attempt
from aiosched.db.engines.tokens import TokenSigner
from aiosched.db.people.signing_keys import OF_ATTEMPTS, signing_keys
from aiosched.db.server.engine import Database
from aiosched.db.statements import unwritten_logs
from aiosched.scheduler.services.task_services import DatabaseServices
from aiosched.web.app import make_app
from aiosched.web.requests.request_client import RequestClient
from tests.cli.records import add_dag, add_run
from tests.database_answers import OF_THE_DATABASE

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ME, OTHER = "a" * 32, "b" * 32


def attempt(number: int, dag_id: str = "d") -> Attempt:
    run = RunInfo(key=number, dag_id=dag_id, run_id="r", run_type="manual", run_after=NOW)
    return Attempt(key=AttemptKey(number, 0, -1, 1), run=run, task_id="t", is_async=False, max_tries=0)


def in_file(path: str) -> StoredXCom:
    return StoredXCom(key="k", path=path, size=1, length=None, value='"1"')


class Api:
    """The worker API, as workers call it; `token(n)` is that of the nth attempt."""

    def __init__(self, db: Database, http: httpx2.AsyncClient, app: Any, signer: TokenSigner) -> None:
        self.db, self.http, self.app, self.signer = db, http, app, signer
        self.ids: dict[AttemptKey, int] = {}

    def token(self, number: int) -> str:
        key = AttemptKey(number, 0, -1, 1)
        return self.signer.seal(self.ids[key], key)

    async def post(self, name: str, message: Any, token: str | None = None, **options: Any) -> httpx2.Response:
        body = message if isinstance(message, bytes) else msgspec.msgpack.encode(message)
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        headers |= options.pop("headers", {})
        return await self.http.post(f"/worker/v1/{name}", content=body, headers=headers, **options)

    async def claim(self, *numbers: int, worker: str = ME) -> list[StartAnswer]:
        claims = StartClaims(worker=worker, hostname="h", pid=7, tokens=list(map(self.token, numbers)))
        answers = msgspec.msgpack.decode(
            (await self.post("starts", claims, claims.tokens[0])).content, type=StartAnswers
        )
        assert answers.lease == 30.0
        return answers.answers

    async def beat(self, *numbers: int, worker: str = ME) -> WorkerHeartbeatAnswer:
        beat = WorkerHeartbeat(worker=worker, tokens=list(map(self.token, numbers)))
        response = await self.post("heartbeat", beat, beat.tokens[0])
        return msgspec.msgpack.decode(response.content, type=WorkerHeartbeatAnswer)

    async def report(self, number: int, report: Report, worker: str = ME) -> bool:
        return (await self.reports(FinalReport(token=self.token(number), report=report), worker=worker))[0]

    async def reports(self, *reports: FinalReport, worker: str = ME) -> list[bool]:
        response = await self.post("reports", FinalReports(worker=worker, reports=list(reports)), reports[0].token)
        return msgspec.msgpack.decode(response.content, type=FinalReportsAnswer).stored

    async def inbox(self) -> list[tuple[Any, ...]]:
        query = "SELECT run_id, try_number, outcome, queued_by FROM task_report ORDER BY id"
        return [tuple(row) for row in await self.db.fetch(query)]

    async def execute(self, query: str) -> None:
        await self.db.execute(query)


@pytest.fixture
async def api(dsn: str, settings: Settings) -> AsyncIterator[Api]:
    """Beside a web server with its login; attempts 1, 2 and 3 wait, sent by one scheduler."""
    settings.web.auth, settings.metrics.public = "password", True
    settings.core.killed_task_cleanup_time = 0.0
    settings.core.max_xcom_bytes = 1_000
    async with await Database.open(dsn) as db:
        transport = httpx2.ASGITransport(app=make_app(RequestClient(db, settings)))
        async with httpx2.AsyncClient(transport=transport, base_url="http://worker-api") as http:
            found = Api(db, http, transport.app, TokenSigner(await signing_keys(db, accepted_for=OF_ATTEMPTS)))
            new = [new_attempt(partition_of("d"), "engine", attempt(number)) for number in (1, 2, 3)]
            async with db.transaction() as conn:
                number = await conn.fetchval(
                    "INSERT INTO scheduler (name, hostname, pid, version, executor, slots, lease_expires_at)"
                    " VALUES ('s', 'h', 1, '0', 'engine', 1, now() + interval '1 hour') RETURNING incarnation"
                )
                found.ids = await insert_attempts(conn, new, incarnation=number)
            yield found


def success(number: int) -> Report:
    return Report(key=AttemptKey(number, 0, -1, 1), outcome=Outcome.SUCCESS, at=NOW)


GONE, BEGUN = StartAnswer(refusal="it has been given up"), StartAnswer(refusal="another worker has begun it")


async def test_a_start_is_claimed_by_one_worker(api: Api) -> None:
    assert await api.claim(1) == [StartAnswer(attempt=attempt(1))]
    assert await api.claim(1) == [StartAnswer(attempt=attempt(1))], "the same worker did not hear the answer"
    assert await api.claim(1, 2, worker=OTHER) == [BEGUN, StartAnswer(attempt=attempt(2))]
    assert await api.report(1, success(1))
    assert await api.claim(1, 2, 3) == [GONE, BEGUN, StartAnswer(attempt=attempt(3))]


async def test_reports_are_stored_together_with_the_ends_of_logs(api: Api, settings: Settings) -> None:
    await api.claim(1, 2)
    await api.claim(3, worker=OTHER)
    ends = [FinalReport(token=api.token(n), report=success(n), log=b"line %d\n" % n) for n in (1, 2, 3)]
    assert await api.reports(*ends, FinalReport(token="nonsense", report=success(2))) == [True, True, False, False]

    assert [row[:3] for row in await api.inbox()] == [(1, 1, "success"), (2, 1, "success")]
    assert sorted(log.read_bytes() for log in _logs(settings.logs_folder)) in (
        [b"line 1\n", b"line 2\n"],
        [b"line 2\n"],
    )


async def test_a_report_that_cannot_be_stored_fails_its_own_attempt(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    await api.claim(1, 2)
    finish = workers.finish

    async def picky(conn: Any, reports: Any, *, worker: str) -> Any:
        if any(report.reason == "bad" for _, report in reports):
            raise ValueError("not this one")
        return await finish(conn, reports, worker=worker)

    monkeypatch.setattr(workers, "finish", picky)
    bad = msgspec.structs.replace(success(1), reason="bad")
    ends = [FinalReport(token=api.token(n), report=report) for n, report in ((1, bad), (2, success(2)))]
    assert await api.reports(*ends) == [True, True]
    assert [row[:3] for row in await api.inbox()] == [(1, 1, "failed"), (2, 1, "success")]


async def test_workers_ask_again_after_any_class_of_errors_that_they_did_not_cause(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A success was stored as failed if the database refused it once, for a right that was missing for a moment, say;
    and a task failed that asked just then."""
    await api.claim(1, 2)
    final = FinalReports(worker=ME, reports=[FinalReport(token=api.token(1), report=success(1))])
    xcoms = XComCall(worker=ME, refs=[XComRef("t")])
    call = ServiceCall(worker=ME, id=uuid4(), name="variable", args="{}")
    raised: list[Exception] = []
    finish = workers.finish

    async def fails(*args: Any, **options: Any) -> Any:
        if raised:
            raise raised.pop()
        return await finish(*args, **options)

    monkeypatch.setattr(workers, "finish", fails)
    monkeypatch.setattr(DatabaseServices, "get_xcoms", fails)
    monkeypatch.setattr(DatabaseServices, "call", fails)
    for kind in OF_THE_DATABASE:
        for name, message, token in (
            ("reports", final, api.token(1)),
            ("xcoms", xcoms, api.token(2)),
            ("call", call, api.token(2)),
        ):
            raised.append(kind("said"))
            assert (await api.post(name, message, token)).status_code == 503, (name, kind)
            assert not raised
    assert await api.report(1, success(1))

    assert [row[:3] for row in await api.inbox()] == [(1, 1, "success")]


@pytest.mark.parametrize("kind", [asyncpg.DataError, asyncpg.CheckViolationError, asyncpg.ProgramLimitExceededError])
async def test_a_report_whose_values_the_database_refuses_fails_its_attempt(
    api: Api, monkeypatch: pytest.MonkeyPatch, kind: type[asyncpg.PostgresError]
) -> None:
    await api.claim(1)
    finish, raised = workers.finish, [kind("said")]

    async def fails(*args: Any, **options: Any) -> Any:
        if raised:
            raise raised.pop()
        return await finish(*args, **options)

    monkeypatch.setattr(workers, "finish", fails)
    assert await api.report(1, success(1))
    assert [row[:3] for row in await api.inbox()] == [(1, 1, "failed")]


async def test_a_report_ends_an_attempt_once_and_its_token_with_it(api: Api) -> None:
    await api.claim(1)
    assert not await api.report(1, success(1), OTHER), "it is not the one that runs it"
    assert await api.report(1, success(1))
    assert not await api.report(1, success(1)), "the answer got lost"

    assert [row[:3] for row in await api.inbox()] == [(1, 1, "success")]
    assert await api.claim(1) == [GONE]
    call = XComCall(worker=ME, refs=[XComRef("t")])
    assert (await api.post("xcoms", call, api.token(1))).status_code == 410
    assert (await api.beat(1)).attempts[0].gone


async def test_a_report_is_about_the_attempt_of_its_token(api: Api) -> None:
    await api.claim(1)
    assert await api.report(1, msgspec.structs.replace(success(2), inbox_id=5, ran_by=6))
    assert [row[:2] for row in await api.inbox()] == [(1, 1)]
    body = json.loads(await api.db.fetchval("SELECT body FROM task_report"))
    assert (body["key"], body["inbox_id"], body["ran_by"]) == ([1, 0, -1, 1], None, None)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"xcoms": (XComValue("k", '"' + "x" * 2_000 + '"'),)}, "beyond core.max_xcom_bytes"),
        ({"xcoms": tuple(XComValue(f"k{n}", '"' + "x" * 900 + '"') for n in range(20))}, "beyond core.max_xcom_bytes"),
        ({"hostname": "x" * 2**25}, "texts of more than 16,777,216 characters"),
        ({"stored_xcoms": (in_file("dag_id=of_blue/run_id=r/task_id=t/attempt=1.0a.json"),)}, "not of its run"),
        ({"stored_xcoms": (in_file("dag_id=d/run_id=r/../../secret"),)}, "not of its run"),
        ({"outcome": Outcome.TRIGGERED}, "which only a scheduler can know"),
    ],
    ids=["a large value", "many values", "a long name", "another's file", "a way up", "a trigger's end"],
)
async def test_a_report_that_no_worker_makes_fails_its_attempt(
    api: Api, settings: Settings, facts: dict[str, Any], reason: str
) -> None:
    await api.claim(1)
    assert await api.report(1, msgspec.structs.replace(success(1), **facts))
    (row,) = await api.inbox()
    assert row[:3] == (1, 1, "failed")
    body = json.loads(await api.db.fetchval("SELECT body FROM task_report"))
    assert reason in body["reason"]
    assert not body.get("xcoms")
    assert not body.get("stored_xcoms")


async def test_values_within_the_limits_and_in_files_of_the_run_are_stored(api: Api) -> None:
    await api.claim(1)
    stored = (in_file("dag_id=d/run_id=r/task_id=t/attempt=1.0a.json"),)
    assert await api.report(1, msgspec.structs.replace(success(1), xcoms=(XComValue("k", "1"),), stored_xcoms=stored))
    assert [row[:3] for row in await api.inbox()] == [(1, 1, "success")]


async def test_a_report_of_a_start_is_not_an_end(api: Api) -> None:
    await api.claim(1)
    started = Report(key=AttemptKey(1, 0, -1, 1), outcome=Outcome.STARTED, at=NOW)
    assert not await api.report(1, started)
    assert await api.inbox() == []
    assert not (await api.beat(1)).attempts[0].gone


async def test_heartbeats_renew_leases_that_have_not_ended_and_announce_starts_once(api: Api) -> None:
    await api.claim(1, 2)
    await api.claim(3, worker=OTHER)
    await api.execute("UPDATE engine_attempt SET alive_until = now() - interval '1 second' WHERE run_id = 2")

    assert [status.gone for status in (await api.beat(1, 2, 3)).attempts] == [False, True, True]
    await api.beat(1)
    assert [row[:3] for row in await api.inbox()] == [(1, 1, "started")]
    assert await api.claim(2) == [BEGUN], "its lease has ended: nobody may begin it"


async def test_a_worker_hears_what_it_is_to_stop(api: Api) -> None:
    await api.claim(1)
    await api.execute("UPDATE engine_attempt SET stop_grace = 7")
    assert (await api.beat(1)).attempts[0].stop_grace == 7


INSTANCE = """
    INSERT INTO dag_version (dag_id, number, content_hash, spec) VALUES ('d', 1, 'x', '{}');
    INSERT INTO dag_run (dag_id, run_id, partition, version_id, run_type, triggered_by, state, run_after)
         VALUES ('d', 'r', 0, 1, 'manual', 'test', 'running', now());
    INSERT INTO task_instance (run_id, task_index, map_index, try_number, state) VALUES (1, 0, -1, 1, 'queued')
"""


@pytest.mark.parametrize(
    ("at", "begins"),
    [
        ("state = 'queued'", True),
        ("state = 'running'", True),
        ("state = 'scheduled'", False),
        ("state = NULL", False),
        ("try_number = 2", False),
        ("state = 'success'", False),
    ],
)
async def test_an_attempt_begins_only_while_its_task_instance_waits_for_this_try(
    api: Api, at: str, begins: bool
) -> None:
    """A scheduler that does not know of engines may have taken it over, and have lost it."""
    await api.execute(INSTANCE)
    await api.execute(f"UPDATE task_instance SET {at}")
    assert await api.claim(1) == [StartAnswer(attempt=attempt(1)) if begins else GONE]


async def test_an_attempt_whose_task_instance_is_at_another_try_is_to_stop(api: Api, settings: Settings) -> None:
    await api.execute(INSTANCE)
    await api.claim(1, 2)
    assert [status.stop_grace for status in (await api.beat(1, 2)).attempts] == [None, None]
    await api.execute("UPDATE task_instance SET state = 'scheduled'")
    assert (await api.beat(1)).attempts[0].stop_grace is None, "nothing else runs"
    await api.execute("UPDATE task_instance SET state = 'queued', try_number = 2")
    assert [status.stop_grace for status in (await api.beat(1, 2)).attempts] == [0, None]
    assert await api.report(1, success(1)), "how it ends is heard"


@pytest.mark.parametrize("token", [None, "", "nonsense", "WzEsWzEsMCwtMSwxXV0.forged", "é"])
async def test_nobody_without_a_token_of_this_database_is_heard(api: Api, token: str | None) -> None:
    call = XComCall(worker=ME, refs=[])
    header = {} if token is None else {"Authorization": f"Bearer {token}".encode()}
    assert (await api.post("xcoms", call, headers=header)).status_code == 401
    forged = TokenSigner([b"another key"]).seal(api.ids[AttemptKey(1, 0, -1, 1)], AttemptKey(1, 0, -1, 1))
    real = api.token(1)
    for name, message in (
        ("starts", StartClaims(worker=ME, hostname="h", pid=7, tokens=[real, forged])),
        ("heartbeat", WorkerHeartbeat(worker=ME, tokens=[real])),
        ("reports", FinalReports(worker=ME, reports=[FinalReport(token=real, report=success(1))])),
        ("code", CodeCall(worker=ME)),
        ("call", ServiceCall(worker=ME, id=UUID(int=1), name="run_state", args="{}")),
        ("log", b"forged"),
    ):
        assert (await api.post(name, message, headers=header)).status_code == 401
        assert (await api.post(name, message, forged)).status_code == 401
    assert not await api.inbox()
    assert (await api.claim(1))[0].attempt is not None, "nobody has begun it"
    answer = await api.post("heartbeat", WorkerHeartbeat(worker=ME, tokens=[forged]), real)
    assert msgspec.msgpack.decode(answer.content, type=WorkerHeartbeatAnswer).attempts[0].gone


class Endless(httpx2.AsyncByteStream):
    """A body that counts how much of it is read."""

    def __init__(self, size: int) -> None:
        self.left, self.read = size, 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self.left > 0:
            self.left -= 65_536
            self.read += 65_536
            yield b"\0" * 65_536


ROUTES = ("starts", "heartbeat", "xcoms", "call", "code", "log", "reports")


@pytest.mark.parametrize("name", ROUTES)
async def test_nothing_of_a_body_is_read_before_its_sender_is_known(api: Api, name: str) -> None:
    """500 kB of empty tokens stopped a web server for 7 s, and uploads that do not end filled its memory."""
    for token in ("", "x" * 10_000_000, "1.2.3.4.5.forged"):
        body = Endless(64 * 2**20)
        header = {"Authorization": f"Bearer {token}"}
        answer = await api.http.post(f"/worker/v1/{name}?offset=0", content=body, headers=header)
        assert (answer.status_code, body.read) == (401, 0)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        *(
            ("starts", {"worker": ME, "hostname": "h", "pid": pid})
            for pid in (2**31, -(2**31) - 1, 2**63 - 1, -(2**63))
        ),
        ("starts", {"worker": "a\0b", "hostname": "h", "pid": 1}),
        ("starts", {"worker": ME, "hostname": "a\0b", "pid": 1}),
        ("heartbeat", {"worker": "a\0b"}),
        ("xcoms", {"worker": ME, "refs": [("t", "key", 2**31)]}),
        ("xcoms", {"worker": ME, "refs": [("a\0b", "a\0b", -(2**63))]}),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
async def test_what_the_database_cannot_take_is_the_senders_fault(
    api: Api, name: str, message: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    tokens = {} if name == "xcoms" else {"tokens": [api.token(1)]}
    answer = await api.post(name, message | tokens, api.token(1))

    assert answer.status_code in (200, 400, 410, 422), answer.text
    assert [record.message for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


@pytest.mark.parametrize("name", ROUTES)
async def test_a_sender_that_goes_away_within_its_body_is_no_fault_of_ours(
    api: Api, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each wrote a traceback: anybody with a token could fill the log, and a reader that is slow held up the server."""
    scope = {
        "type": "http", "http_version": "1.1", "method": "POST", "scheme": "http", "path": f"/worker/v1/{name}",
        "raw_path": b"", "root_path": "", "query_string": b"offset=0", "client": ("h", 1), "server": ("h", 2),
        "headers": [(b"host", b"worker-api"), (b"authorization", f"Bearer {api.token(1)}".encode())],
    }  # fmt: skip
    parts = iter([{"type": "http.request", "body": b"\x81", "more_body": True}, {"type": "http.disconnect"}])
    sent = list[Any]()

    async def receive() -> dict[str, Any]:
        return next(parts, {"type": "http.disconnect"})

    async def send(message: Any) -> None:
        sent.append(message)

    await api.app(scope, receive, send)

    assert [record.message for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []
    assert not await api.inbox()


@pytest.mark.parametrize(
    ("name", "most"), [("starts", 2**20), ("heartbeat", 2**20), ("code", 2**20), ("xcoms", 2**21), ("reports", 2**27)]
)
async def test_a_body_is_read_up_to_the_limit_of_its_kind(api: Api, name: str, most: int) -> None:
    body = Endless(2**28)
    answer = await api.http.post(
        f"/worker/v1/{name}", content=body, headers={"Authorization": f"Bearer {api.token(1)}"}
    )
    assert answer.status_code == 413
    assert body.read <= most

    announced = {"Authorization": f"Bearer {api.token(1)}", "Content-Length": str(2**28)}
    body = Endless(2**28)
    answer = await api.http.post(f"/worker/v1/{name}", content=body, headers=announced)
    assert (answer.status_code, body.read) == (413, 0)


@pytest.mark.parametrize("kind", ["starts", "heartbeat"])
async def test_one_request_names_no_more_attempts_than_workers_send(api: Api, kind: str) -> None:
    one = api.token(1)
    for tokens in ([], [one] * (MOST_ATTEMPTS + 1), [one, "x" * 1_000]):
        message = {"worker": ME, "hostname": "h", "pid": 7, "tokens": tokens}
        assert (await api.post(kind, msgspec.msgpack.encode(message), one)).status_code == 400


@pytest.mark.parametrize(
    "header",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
    ],
)
async def test_a_browser_is_not_answered(api: Api, header: dict[str, str]) -> None:
    for name in ROUTES:
        answer = await api.post(name, b"", api.token(1), headers=header)
        assert (answer.status_code, answer.text) == (403, "this is for workers, not for browsers")


async def test_a_token_reads_the_values_of_its_run_only(api: Api) -> None:
    await api.claim(1)
    await api.execute(
        "INSERT INTO xcom (run_id, task_index, map_index, key, value) VALUES (2, 0, -1, 'return_value', '2')"
    )
    answer = await api.post("xcoms", XComCall(worker=ME, refs=[XComRef("t")]), api.token(1))
    assert msgspec.msgpack.decode(answer.content, type=XComResult).pairs == [[]]
    assert (await api.post("xcoms", XComCall(worker=OTHER, refs=[]), api.token(1))).status_code == 410


async def test_the_team_of_a_question_is_that_of_its_token_whatever_the_question_says(api: Api) -> None:
    """Runs 1 and 3 are of DAGs of two teams; the attempt of run 1 asks in all the ways that a forger could try."""
    versions = {dag_id: await add_dag(api.db, dag_id) for dag_id in ("of_beta", "of_nobody", "of_alpha")}
    assert [await add_run(api.db, dag_id, versions[dag_id], "r") for dag_id in versions] == [1, 2, 3]
    await api.execute("INSERT INTO team (name) VALUES ('alpha'), ('beta')")
    await api.execute("UPDATE dag SET team = substr(dag_id, 4) WHERE dag_id <> 'of_nobody'")
    await api.execute(
        "INSERT INTO xcom (run_id, task_index, map_index, key, value)"
        " SELECT run, 1, -1, 'return_value', to_json(run) FROM generate_series(2, 3) AS run"
    )
    await api.claim(1, 3)

    async def ask(number: int, **args: Any) -> ServiceResult:
        text = json.dumps({"refs": [["load", "return_value", None]], **args})
        call = ServiceCall(worker=ME, id=UUID(int=1), name="xcoms", args=text)
        return msgspec.msgpack.decode((await api.post("call", call, api.token(number))).content, type=ServiceResult)

    found = {"pairs": [[[-1, "3"]]], "hint": None}
    assert json.loads((await ask(3, dag_id="of_alpha")).answer) == found
    assert json.loads((await ask(1, dag_id="of_nobody")).answer) == {"pairs": [[[-1, "2"]]], "hint": None}
    forged = {"run": 3, "team": "alpha", "asking": "of_alpha", "sees_all": True, "by": ["load", -1, 1]}
    for more in ({}, {"run_id": "r"}, {"earlier": True}, forged):
        answer = await ask(1, dag_id="of_alpha", **more)
        assert (answer.answer, answer.kind) == ("", "Refused"), more
        assert "for DAGs of its team 'alpha'; 'of_beta', which asks, belongs to the team 'beta'" in str(answer.error)
    call = XComCall(worker=ME, refs=[XComRef("load")])
    response = await api.post("xcoms", call, api.token(3))
    assert msgspec.msgpack.decode(response.content, type=XComResult).pairs == [[(-1, "3")]]


async def test_a_service_answers_with_the_error_for_the_task(api: Api) -> None:
    await api.claim(1)
    for name, args, kind, words in (
        ("nothing", "{}", "NotFound", "no service 'nothing'"),
        ("run_state", "{", "", "DecodeError"),
        ("run_state", "{}", "", "KeyError: 'dag_id'"),
    ):
        call = ServiceCall(worker=ME, id=UUID(int=1), name=name, args=args)
        answer = msgspec.msgpack.decode((await api.post("call", call, api.token(1))).content, type=ServiceResult)
        assert (answer.kind, words in str(answer.error)) == (kind, True)


async def test_parts_of_a_log_come_to_their_place_also_twice(api: Api, settings: Settings) -> None:
    await api.claim(1)
    header = {"Aiosched-Worker": ME}
    for offset, part in ((0, b"one\n"), (4, b"two\n"), (4, b"two\n")):
        sent = await api.post("log", part, api.token(1), headers=header, params={"offset": offset})
        assert sent.status_code == 204
    (file,) = _logs(settings.logs_folder)
    assert file.read_bytes() == b"one\ntwo\n"

    assert (await api.post("log", b"x", api.token(1), params={"offset": 0})).status_code == 410, "no worker's id"
    for offset in ("-1", "x", "1e3", "9" * 19, "9" * 5_000, ""):
        refused = await api.post("log", b"x", api.token(1), headers=header, params={"offset": offset})
        assert refused.status_code == 400
    assert (await api.post("log", b"x" * 100, api.token(1), headers=header, params={"offset": 10**12})).is_success
    assert file.stat().st_size == 8, "beyond the limit nothing is written"


async def test_a_server_that_cannot_write_logs_takes_reports_all_the_same(api: Api, settings: Settings) -> None:
    """Otherwise a task that succeeded would be given up: its worker would send its log until its lease has ended."""
    version = await add_dag(api.db, "d")
    assert [await add_run(api.db, "d", version, run_id) for run_id in ("r1", "r2")] == [1, 2], "the runs of attempts"
    settings.logs_folder.parent.mkdir(parents=True, exist_ok=True)
    settings.logs_folder.write_text("")
    header = {"Aiosched-Worker": ME}

    await api.claim(1, 2)
    for offset, part in ((0, b"one\n"), (4, b"two\n"), (4, b"two\n")):
        sent = await api.post("log", part, api.token(1), headers=header, params={"offset": offset})
        assert sent.status_code == 204
    ends = [FinalReport(token=api.token(n), report=success(n), log=b"end %d\n" % n, log_offset=8) for n in (1, 2)]
    assert await api.reports(*ends) == [True, True]

    keys = [AttemptKey(number, 0, -1, 1) for number in (1, 2)]
    rows = [await unwritten_logs.find(api.db, key) for key in keys]
    assert [row and (row.why, row.lost, row.tail) for row in rows] == [
        ("File exists", 14, "end 1\n"),
        ("File exists", 14, "end 2\n"),
    ]


def _logs(folder: Path) -> list[Path]:
    return list(folder.rglob("*.log"))


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x80", msgspec.msgpack.encode({"worker": 3}), b"{}"])
async def test_a_body_that_cannot_be_read_is_refused(api: Api, body: bytes) -> None:
    for name in ("starts", "xcoms", "call", "heartbeat", "reports"):
        answer = await api.post(name, body, api.token(1))
        assert (answer.status_code, "cannot be read" in answer.text) == (400, True)


async def test_a_call_with_an_id_that_is_none_is_refused(api: Api) -> None:
    await api.claim(1)
    call = {"worker": ME, "id": "not a uuid", "name": "run_state", "args": "{}"}
    assert (await api.post("call", call, api.token(1))).status_code == 400


async def test_below_a_mounted_application_it_is_there_too(api: Api, dsn: str, settings: Settings) -> None:
    outer = Starlette(routes=[Mount("/flows", make_app(RequestClient(api.db, settings)))])
    transport = httpx2.ASGITransport(app=outer)
    async with httpx2.AsyncClient(transport=transport, base_url="http://worker-api") as http:
        http.headers["Authorization"] = f"Bearer {api.token(1)}"
        body = msgspec.msgpack.encode(StartClaims(worker=ME, hostname="h", pid=7, tokens=[api.token(1)]))
        assert (await http.post("/flows/worker/v1/starts", content=body)).status_code == 200
        assert (await http.post("/worker/v1/starts", content=body)).status_code == 404


@pytest.mark.parametrize("other", [AttemptKey(9, 0, -1, 1), AttemptKey(1, 1, -1, 1), AttemptKey(1, 0, -1, 2)])
async def test_a_token_of_before_a_restore_opens_no_other_attempt_of_its_number(api: Api, other: AttemptKey) -> None:
    token = api.signer.seal(api.ids[AttemptKey(1, 0, -1, 1)], other)
    claims = StartClaims(worker=OTHER, hostname="h", pid=7, tokens=[token, api.token(2)])

    response = await api.post("starts", claims, token)
    answers = msgspec.msgpack.decode(response.content, type=StartAnswers).answers

    assert answers == [GONE, StartAnswer(attempt=attempt(2))]
    assert (await api.claim(1))[0].attempt is not None  # nobody has begun it


BEFORE = [AttemptKey(9, 0, -1, 1), AttemptKey(1, 1, -1, 1), AttemptKey(1, 0, 3, 1), AttemptKey(1, 0, -1, 2)]


@pytest.mark.parametrize("other", BEFORE)
async def test_a_worker_with_two_tokens_of_one_number_has_the_attempt_of_one(api: Api, other: AttemptKey) -> None:
    """Both are signed: one is of before a restore. Whatever it asks, in whatever order, the older one does nothing."""
    new, old = api.token(1), api.signer.seal(api.ids[AttemptKey(1, 0, -1, 1)], other)
    is_first = other.try_number == 1
    both = [old, new] if is_first else [new, old]

    async def told(name: str, message: Any, kind: type[Any]) -> Any:
        return msgspec.msgpack.decode((await api.post(name, message, both[0])).content, type=kind)

    starts = await told("starts", StartClaims(worker=ME, hostname="h", pid=7, tokens=both), StartAnswers)
    assert starts.answers[both.index(old)] == GONE
    assert starts.answers[both.index(new)].attempt is not None
    beats = await told("heartbeat", WorkerHeartbeat(worker=ME, tokens=both), WorkerHeartbeatAnswer)
    assert [beats.attempts[both.index(token)].gone for token in (old, new)] == [True, False]
    asks: dict[str, Any] = {
        "xcoms": XComCall(worker=ME, refs=[]),
        "call": ServiceCall(worker=ME, id=uuid4(), name="variable", args="{}"),
        "code": CodeCall(worker=ME),
        "log?offset=0": b"forged",
    }
    for name, message in asks.items():
        answer = await api.post(name, message, old, headers={"Aiosched-Worker": ME})
        assert answer.status_code == 410, name
    alone = await api.reports(FinalReport(token=old, report=success(1), log=b"forged"))
    assert (alone, [row[2] for row in await api.inbox()]) == ([False], ["started"])
    failed = msgspec.structs.replace(success(1), outcome=Outcome.FAILED)
    ends = {old: failed, new: success(1)}
    assert await api.reports(*(FinalReport(token=token, report=ends[token]) for token in both)) == [
        token == new for token in both
    ]
    assert [row[2] for row in await api.inbox()] == ["started", "success"]


async def test_metrics_count_the_attempts_on_engines(api: Api) -> None:
    await api.claim(1)
    await api.claim(2)
    await api.execute("UPDATE engine_attempt SET alive_until = now() - interval '1 second' WHERE run_id = 2")

    text = (await api.http.get("/metrics")).text

    for state in ("waiting", "running", "silent"):
        assert f'aiosched_engine_attempts{{executor="engine",state="{state}"}} 1.0' in text


async def test_metrics_show_what_schedulers_see_of_engines(api: Api) -> None:
    figures = {"executor": {"celery": {"open": 4, "open_async": 1, "engine": {
        "workers": 2, "slots": 8, "queues": {"gpu": 7}, "listed": [["celery@one", 4, 1]],
    }}}}  # fmt: skip
    await api.db.execute("UPDATE scheduler SET figures = $1", json.dumps(figures))

    text = (await api.http.get("/metrics")).text

    assert 'aiosched_engine_workers{executor="celery",scheduler="s"} 2.0' in text
    assert 'aiosched_engine_queue_length{executor="celery",queue="gpu",scheduler="s"} 7.0' in text
