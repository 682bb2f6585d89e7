"""The worker API by itself: who may ask what, and until when."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx2
import msgspec
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from aiosched.config import Settings
from aiosched.core.values.ids import partition_of
from aiosched.core.values.messages import Attempt, AttemptKey, Outcome, Report, RunInfo, XComRef
from aiosched.core.values.worker_messages import (
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
from aiosched.db.engines import workers
from aiosched.db.engines.attempts import insert_attempts, new_attempt
from aiosched.db.engines.tokens import TokenSigner
from aiosched.db.people.signing_keys import OF_ATTEMPTS, signing_keys
from aiosched.db.server.engine import Database
from aiosched.web.app import make_app
from aiosched.web.requests.request_client import RequestClient

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ME, OTHER = "a" * 32, "b" * 32


def attempt(number: int, dag_id: str = "d") -> Attempt:
    run = RunInfo(key=number, dag_id=dag_id, run_id="r", run_type="manual", run_after=NOW)
    return Attempt(key=AttemptKey(number, 0, -1, 1), run=run, task_id="t", is_async=False, max_tries=0)


class Api:
    """The worker API, as workers call it; `token(n)` is that of the nth attempt."""

    def __init__(self, db: Database, http: httpx2.AsyncClient, signer: TokenSigner) -> None:
        self.db, self.http, self.signer = db, http, signer
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
        answers = msgspec.msgpack.decode((await self.post("starts", claims)).content, type=StartAnswers)
        assert answers.lease == 30.0
        return answers.answers

    async def beat(self, *numbers: int, worker: str = ME) -> WorkerHeartbeatAnswer:
        response = await self.post("heartbeat", WorkerHeartbeat(worker=worker, tokens=list(map(self.token, numbers))))
        return msgspec.msgpack.decode(response.content, type=WorkerHeartbeatAnswer)

    async def report(self, number: int, report: Report, worker: str = ME) -> bool:
        return (await self.reports(FinalReport(token=self.token(number), report=report), worker=worker))[0]

    async def reports(self, *reports: FinalReport, worker: str = ME) -> list[bool]:
        response = await self.post("reports", FinalReports(worker=worker, reports=list(reports)))
        return msgspec.msgpack.decode(response.content, type=FinalReportsAnswer).stored

    async def inbox(self) -> list[tuple[Any, ...]]:
        query = "SELECT run_id, try_number, outcome, queued_by FROM task_report ORDER BY id"
        async with self.db.acquire() as conn:
            return [tuple(row) for row in await conn.fetch(query)]

    async def execute(self, query: str) -> None:
        async with self.db.acquire() as conn:
            await conn.execute(query)


@pytest.fixture
async def api(dsn: str, settings: Settings) -> AsyncIterator[Api]:
    """Beside a web server with its login; attempts 1, 2 and 3 wait, sent by one scheduler."""
    settings.web.auth, settings.metrics.public = "password", True
    settings.core.killed_task_cleanup_time = 0.0
    async with await Database.open(dsn) as db:
        transport = httpx2.ASGITransport(app=make_app(RequestClient(db, settings)))
        async with httpx2.AsyncClient(transport=transport, base_url="http://worker-api") as http:
            found = Api(db, http, TokenSigner(await signing_keys(db, accepted_for=OF_ATTEMPTS)))
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


async def test_a_report_ends_an_attempt_once_and_its_token_with_it(api: Api) -> None:
    await api.claim(1)
    assert not await api.report(1, success(1), OTHER), "it is not the one that runs it"
    assert await api.report(1, success(1))
    assert not await api.report(1, success(1)), "the answer got lost"

    assert [row[:3] for row in await api.inbox()] == [(1, 1, "success")]
    assert await api.claim(1) == [GONE]
    question = XComQuestion(worker=ME, refs=[XComRef("t")])
    assert (await api.post("xcoms", question, api.token(1))).status_code == 410
    assert (await api.beat(1)).attempts[0].gone


async def test_a_report_is_about_the_attempt_of_its_token(api: Api) -> None:
    await api.claim(1)
    assert await api.report(1, success(2))
    assert [row[:2] for row in await api.inbox()] == [(1, 1)]


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
    question = XComQuestion(worker=ME, refs=[])
    header = {} if token is None else {"Authorization": f"Bearer {token}".encode()}
    assert (await api.post("xcoms", question, headers=header)).status_code == 401
    forged = TokenSigner([b"another key"]).seal(api.ids[AttemptKey(1, 0, -1, 1)], AttemptKey(1, 0, -1, 1))
    claims = StartClaims(worker=ME, hostname="h", pid=7, tokens=[forged, str(token)])
    assert (await api.post("starts", claims)).status_code == 401
    answer = await api.post("heartbeat", WorkerHeartbeat(worker=ME, tokens=[forged]))
    assert msgspec.msgpack.decode(answer.content, type=WorkerHeartbeatAnswer).attempts[0].gone


async def test_a_token_reads_the_values_of_its_run_only(api: Api) -> None:
    await api.claim(1)
    await api.execute(
        "INSERT INTO xcom (run_id, task_index, map_index, key, value) VALUES (2, 0, -1, 'return_value', '2')"
    )
    answer = await api.post("xcoms", XComQuestion(worker=ME, refs=[XComRef("t")]), api.token(1))
    assert msgspec.msgpack.decode(answer.content, type=XComAnswer).pairs == [[]]
    assert (await api.post("xcoms", XComQuestion(worker=OTHER, refs=[]), api.token(1))).status_code == 410


async def test_a_service_answers_with_the_error_for_the_task(api: Api) -> None:
    await api.claim(1)
    for name, args, kind, words in (
        ("nothing", "{}", "NotFound", "no service 'nothing'"),
        ("run_state", "{", "", "DecodeError"),
        ("run_state", "{}", "", "KeyError: 'dag_id'"),
    ):
        call = ServiceCall(worker=ME, id=UUID(int=1), name=name, args=args)
        answer = msgspec.msgpack.decode((await api.post("call", call, api.token(1))).content, type=ServiceAnswer)
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
    for offset in ("-1", "x", "1e3"):
        refused = await api.post("log", b"x", api.token(1), headers=header, params={"offset": offset})
        assert refused.status_code == 400
    assert (await api.post("log", b"x" * 100, api.token(1), headers=header, params={"offset": 10**12})).is_success
    assert file.stat().st_size == 8, "beyond the limit nothing is written"


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
        body = msgspec.msgpack.encode(StartClaims(worker=ME, hostname="h", pid=7, tokens=[api.token(1)]))
        assert (await http.post("/flows/worker/v1/starts", content=body)).status_code == 200
        assert (await http.post("/worker/v1/starts", content=body)).status_code == 404


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
    async with api.db.acquire() as conn:
        await conn.execute("UPDATE scheduler SET figures = $1", json.dumps(figures))

    text = (await api.http.get("/metrics")).text

    assert 'aiosched_engine_workers{executor="celery",scheduler="s"} 2.0' in text
    assert 'aiosched_engine_queue_length{executor="celery",queue="gpu",scheduler="s"} 7.0' in text
