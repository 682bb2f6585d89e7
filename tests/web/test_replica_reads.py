"""Pages are read from a replica by streaming, and nobody sees there what is older than what he knows of."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import signal
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import asyncpg
import httpx2
import psutil
import pytest
import pytest_asyncio
from cryptography.fernet import Fernet
from fastapi import FastAPI

from aiosched.cli.operation import doctor
from aiosched.clock import FakeClock
from aiosched.config import DatabaseSettings, SecretsSettings, Settings
from aiosched.core.fleet import replicas
from aiosched.core.fleet.replicas import shown_position
from aiosched.db.server.engine import Database
from aiosched.db.server.installations import binaries
from aiosched.db.server.migrate import migrate
from aiosched.db.server.replica import reading_from
from aiosched.db.statements import run_changes
from aiosched.errors import ConfigError, DatabaseError
from aiosched.web.app import make_app
from aiosched.web.requests.request_client import READING, RequestClient, TheRequestClient
from aiosched.web.views import database_watch, live, replica_watch
from aiosched.web.views.health import Status
from aiosched.web.views.live import Hub
from aiosched.web.views.replica_gate import ReplicaGate
from aiosched.web.views.replica_watch import HEADER, ReplicaWatch
from tests.cli.records import add_run
from tests.conftest import OLDER_SERVERS
from tests.faults.standby import Pair, a_pair
from tests.foreign_rows import DAG, RUN, seed
from tests.patience import PATIENCE, until
from tests.suspending import suspend
from tests.web.walks import PAGES

# What is asked of the primary, though it only reads: who may log in, which schedulers are alive, and their answers.
OF_THE_PRIMARY = {
    "/api/v1/commands",
    "/api/v1/commands/{number}",
    "/api/v1/dags/{dag_id}/runs/{run}/tasks/{task_id}/why",
    "/api/v1/dags/{dag_id}/runs/{run}/why",
    "/api/v1/dags/{dag_id}/why",
    "/api/v1/metrics/summary",
    "/api/v1/schedulers",
    "/api/v1/sessions",
    "/api/v1/summary",
    "/api/v1/tokens",
    "/api/v1/users",
    "/api/v1/users/{name}",
}
# What shows nothing of the database, or the health and the figures of all.
OF_NONE = {
    "/api/v1/connection-types",
    "/api/v1/login",
    "/api/v1/me",
    "/api/v1/search",  # of one letter
    "/api/v1/settings",
    "/health",
    "/livez",
    "/metrics",
    "/readyz",
}


KEY = Fernet.generate_key().decode()
FAR: Final = 10_000.0  # seconds


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "SPREAD_SECONDS", 0.0)
    monkeypatch.setattr(replica_watch, "ASK_SECONDS", 0.01)
    for module in (database_watch, replica_watch):  # on a busy machine every server is one that does not answer in time
        monkeypatch.setattr(module, "ANSWER_SECONDS", PATIENCE)
    monkeypatch.setattr(database_watch, "PROBE_SECONDS", PATIENCE)
    for module in (replicas, replica_watch):  # however long a test holds the replica back, it is read
        monkeypatch.setattr(module, "MOST_BEHIND", FAR)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with a_pair(binaries()) as found:
        yield found


@pytest_asyncio.fixture(scope="module")
async def rows(pair: Pair) -> Pair:
    """The pair, with a row in every table that people read, and the standby replays."""
    await migrate(pair.primary.dsn())
    async with await Database.open(pair.primary.dsn(), application_name="test") as db:
        await seed(db)
    await pair.start_standby()
    return pair


@dataclass
class Site:
    """A web application with a replica, and somebody who asks it."""

    app: FastAPI
    db: Database
    client: httpx2.AsyncClient
    standby: Any  # a connection

    @property
    def watch(self) -> ReplicaWatch:
        watch: ReplicaWatch = self.app.state.replica
        return watch

    async def get(self, address: str, position: str | None = "0/0") -> httpx2.Response:
        return await self.client.get(address, headers={} if position is None else {HEADER: position})

    async def asked(self, address: str, position: str | None = "0/0") -> tuple[httpx2.Response, bool, bool]:
        """The answer, whether the replica gave it, and whether the primary did after it."""
        before = self.watch.answered, self.watch.repeated
        answer = await self.get(address, position)
        return answer, self.watch.answered > before[0], self.watch.repeated > before[1]

    async def until_read(self) -> None:
        await until(lambda: self.watch.state.trouble is None, "the replica to be read")


def settings(read_dsn: str | None) -> Settings:
    return Settings(database=DatabaseSettings(read_dsn=read_dsn), secrets=SecretsSettings(fernet_keys=KEY))


@pytest.fixture
async def site(rows: Pair) -> AsyncIterator[Site]:
    async with await Database.open(rows.primary.dsn(), application_name="web", count_statements=True) as db:
        app = make_app(RequestClient(db, settings(rows.standby.dsn()), clock=FakeClock(datetime.now(UTC))))
        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost/") as client:
            standby = await asyncpg.connect(rows.standby.dsn())
            found = Site(app, db, client, standby)
            app.state.replica.start()
            await found.until_read()
            yield found
            await standby.close()
            await rows.replay()
        app.state.hub.close()
        await app.state.replica.close()


async def variable(site: Site, position: str | None) -> str:
    """The value of the variable `v` that somebody sees who knows of a position."""
    answer = await site.get("/api/v1/variables/v", position)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["value"])


async def store(site: Site, value: str) -> str:
    """Store it by the API; the position that the answer has."""
    answer = await site.client.put("/api/v1/variables/v", json={"value": value})
    assert answer.is_success, answer.text
    return str(answer.headers[HEADER])


async def test_every_page_is_that_of_the_primary_and_the_list_of_exceptions_is_short(site: Site, rows: Pair) -> None:
    position = await rows.catch_up()

    wrong, by_primary = [], set()
    for path, address in PAGES:
        expected = await site.get(address, None)
        answer, is_of_replica, is_repeated = await site.asked(address, position)
        if answer.status_code != expected.status_code:
            wrong.append(f"{path}: {expected.status_code} at the primary, {answer.status_code} {answer.text:.100}")
        elif is_of_replica and shape(answer) != shape(expected):
            wrong.append(f"{path}: {expected.text:.300}, and {answer.text:.300}")
        if is_repeated and expected.status_code != 404:
            wrong.append(f"{path} was asked of both: {expected.status_code}")
        if not (is_of_replica or is_repeated):
            by_primary.add(path)

    assert not wrong, "\n".join(wrong)
    assert by_primary == OF_THE_PRIMARY | OF_NONE


def shape(answer: httpx2.Response) -> Any:
    """What an answer says."""
    return answer.json() if "json" in answer.headers["content-type"] else answer.content


async def test_who_has_stored_something_sees_it_and_others_may_see_it_later(site: Site, rows: Pair) -> None:
    before = await store(site, "old")
    await rows.hold_replay()

    after = await store(site, "new")

    assert await variable(site, before) == "old"  # so it was read from the replica
    assert await variable(site, after) == "new"
    assert await variable(site, None) == "new"  # who says nothing may know of it
    assert await variable(site, "nonsense") == "new"
    answer, is_of_replica, is_repeated = await site.asked("/api/v1/variables/v", after)
    assert (answer.json()["value"], is_of_replica, is_repeated) == ("new", False, True)

    await rows.replay()
    await rows.catch_up()
    answer, is_of_replica, is_repeated = await site.asked("/api/v1/variables/v", after)
    assert (answer.json()["value"], is_of_replica, is_repeated) == ("new", True, False)


async def test_what_another_web_server_has_stored_is_seen_at_this_one(site: Site, rows: Pair) -> None:
    await store(site, "old")
    await rows.hold_replay()
    other = make_app(RequestClient(site.db, settings(rows.standby.dsn())))
    transport = httpx2.ASGITransport(app=other)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost/") as client:
        answer = await client.put("/api/v1/variables/v", json={"value": "there"})

    assert await variable(site, answer.headers[HEADER]) == "there"


async def test_what_is_refused_is_answered_with_a_position_too(site: Site, rows: Pair) -> None:
    """Who reads again because somebody else was faster must not read the same as before."""
    await store(site, "old")
    await rows.hold_replay()
    await store(site, "newer")

    answer = await site.client.put("/api/v1/variables/v", json={"value": "x"}, headers={"If-Match": '"old"'})

    assert answer.status_code == 412
    assert await variable(site, answer.headers[HEADER]) == "newer"


async def test_what_is_not_there_yet_is_asked_of_the_primary(site: Site, rows: Pair) -> None:
    await rows.hold_replay()
    await add_run(site.db, DAG, await add_version(site), "fresh")

    answer = await site.get(f"/api/v1/dags/{DAG}/runs/fresh")

    assert answer.status_code == 200


async def add_version(site: Site) -> int:
    return int(await site.db.fetchval("SELECT version_id FROM dag_run WHERE dag_id = $1 LIMIT 1", DAG))


async def test_a_page_that_reads_because_of_a_patch_sees_what_the_patch_is_about(site: Site, rows: Pair) -> None:
    hub: Hub = site.app.state.hub
    stream = hub.stream(frozenset(), None)
    positions: list[str] = []

    async def until_told(kind: str) -> dict[str, Any]:
        """The next patch of a kind; positions before it are those that a page knows then."""
        async with asyncio.timeout(PATIENCE):
            async for message in stream:
                for event in message.decode().strip().split("\n\n"):
                    fields = dict(line.split(": ", 1) for line in event.splitlines())
                    if fields.get("event") == "position":
                        positions.append(fields["data"])
                    if "id" in fields and (patch := json.loads(fields["data"])).get("kind") == kind:
                        return dict(patch)
        raise AssertionError

    await until_told("reset")  # whoever has read before the changes were heard
    begun = positions[-1]
    run = await site.db.fetchval("UPDATE dag_run SET note = 'old' WHERE run_id = $1 RETURNING id", RUN)
    await rows.hold_replay()

    async with site.db.acquire() as conn:
        await conn.execute("UPDATE dag_run SET note = 'new' WHERE id = $1", run)
        await run_changes.publish_runs(conn, [run])
    patch = await until_told("run")

    async def note(position: str) -> Any:
        return (await site.get(f"/api/v1/dags/{DAG}/runs/{RUN}", position)).json()["note"]

    assert patch["run_id"] == RUN
    assert await note(begun) == "old"
    assert await note(positions[-1]) == "new"
    await stream.aclose()  # type: ignore[attr-defined]  # it is a generator


async def test_a_stream_that_is_resumed_begins_with_the_position_of_now(site: Site, rows: Pair) -> None:
    hub: Hub = site.app.state.hub
    first = hub.stream(frozenset(), None)
    assert await anext(first) == b"retry: 2000\n\n"
    await hub.listening.wait()
    await rows.hold_replay()
    await store(site, "meanwhile")

    second = hub.stream(frozenset(), "another-7")  # as of another web server
    assert await anext(second) == b"retry: 2000\n\n"
    told, reset = (await anext(second)).decode(), (await anext(second)).decode()

    assert told.startswith("event: position\ndata: ")
    assert "event: reset" in reset, (told, reset)
    assert await variable(site, told.split()[-1]) == "meanwhile"
    for stream in (first, second):
        await stream.aclose()  # type: ignore[attr-defined]  # they are generators


async def test_too_far_behind_the_primary_is_read_which_is_said_once(
    site: Site, rows: Pair, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, replica_watch.__name__)
    await store(site, "old")
    await rows.hold_replay()
    await store(site, "new")
    assert await variable(site, "0/0") == "old"
    ahead = [4.0]
    monkeypatch.setattr(site.watch, "_monotonic", lambda: time.monotonic() + ahead[0])

    await until(lambda: site.watch.state.is_old, "a page to say that")
    assert await variable(site, "0/0") == "old"
    status = json.loads(site.app.state.hub._status.message().decode().split("data: ")[1])
    assert status["replica"]["behind"] >= 4

    ahead[0] = FAR + 1
    assert await variable(site, "0/0") == "new"  # before the watch has looked
    await until(lambda: site.watch.state.trouble is not None, "the lag to be noticed")
    assert not site.watch.state.is_old
    health = (await site.client.get("/health")).json()
    assert health["components"]["replica"]["status"] == Status.DEGRADED
    assert f"more than {FAR:.0f} s behind" in health["components"]["replica"]["detail"]
    assert "aiosched_replica_read 0.0" in (await site.client.get("/metrics")).text

    await rows.replay()
    await site.until_read()
    said = [record.getMessage() for record in caplog.records if record.name == replica_watch.__name__]
    assert len(said) == 2
    assert f"more than {FAR:.0f} s behind" in said[0]
    assert "pages are read from the replica" in said[1]


async def test_every_connection_must_be_as_near_as_the_limit_says(site: Site) -> None:
    """The address may lead to several replicas, of which the watch sees one."""
    least = site.watch.needed("0/0")

    assert least is not None
    assert least > 0
    assert site.watch.needed(shown_position(least + 1)) == least + 1
    with reading_from(2**63), pytest.raises(DatabaseError, match="is behind what is to be read"):
        async with site.watch.replica.acquire():
            pass


async def test_a_replica_that_dies_under_requests_fails_none_of_them_and_is_read_again_afterwards(
    site: Site, rows: Pair
) -> None:
    await store(site, "x")
    await rows.catch_up()
    over = asyncio.Event()
    statuses: set[int] = set()

    async def ask() -> None:
        while not over.is_set():
            statuses.add((await site.get("/api/v1/dags")).status_code)
            statuses.add((await site.get("/api/v1/variables/v")).status_code)

    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
        for _ in range(4):
            tasks.create_task(ask())
        await until(lambda: site.watch.answered > 20, "answers of the replica")
        await rows._control(rows.standby, "-m", "immediate", "stop")
        await until(lambda: site.watch.state.trouble is not None, "the outage to be noticed")
        assert "the connection was refused. Start it, or correct the DSN" in str(site.watch.state)
        await rows.start_standby()
        await site.until_read()
        before = site.watch.answered
        await until(lambda: site.watch.answered > before, "answers of the replica again")
        over.set()

    assert statuses == {200}


async def test_a_question_that_what_is_replayed_has_cancelled_is_asked_of_the_primary(site: Site) -> None:
    app = FastAPI()
    app.state.request_client = RequestClient(site.db, settings(None))
    state, leave = {READING: RequestClient(site.watch.replica, settings(None))}, site.app.state.watch.leave
    gate = ReplicaGate(app, watch=site.watch, state=state, leave=leave)

    @app.get("/slow")
    async def slow(client: TheRequestClient) -> str:
        where = "CASE WHEN pg_is_in_recovery() THEN pg_sleep(600)::text ELSE 'of the primary' END"
        return str(await client.db.fetchval(f"SELECT {where} FROM (SELECT count(*) FROM variable) AS v"))

    await site.standby.execute("ALTER SYSTEM SET max_standby_streaming_delay = 0")
    await site.standby.execute("SELECT pg_reload_conf()")
    transport = httpx2.ASGITransport(app=gate)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost/") as client:
        asking = asyncio.create_task(client.get("/slow", headers={HEADER: "0/0"}))
        waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        while not await site.standby.fetchval(waits):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        async with site.db.transaction() as conn:
            await conn.execute("LOCK TABLE variable IN ACCESS EXCLUSIVE MODE")
            await conn.execute("SELECT pg_current_xact_id()")
        answer = await asking
    await site.standby.execute("ALTER SYSTEM RESET max_standby_streaming_delay")
    await site.standby.execute("SELECT pg_reload_conf()")

    assert (answer.status_code, answer.json()) == (200, "of the primary")
    assert site.watch.repeated == 1


async def trouble_of(site: Site, dsn: str) -> str:
    """What a web server says about a replica at this address; empty: it reads from it."""
    app = make_app(RequestClient(site.db, settings(dsn)))
    watch: ReplicaWatch = app.state.replica
    watch.start()
    await until(lambda: watch.looked.is_set() and "not known yet" not in str(watch.state), "a look")
    try:
        return watch.state.trouble or ""
    finally:
        await watch.close()


async def test_an_address_that_leads_elsewhere_is_not_read_and_the_reason_names_the_setting(
    site: Site, rows: Pair, dsn: str
) -> None:
    await site.db.execute("CREATE DATABASE other")
    await rows.catch_up()

    assert "another database of that server. Correct database.read_dsn" in await trouble_of(
        site, rows.standby.dsn("other")
    )
    assert "another cluster" in await trouble_of(site, dsn)
    assert "has no database 'nothing'" in await trouble_of(site, rows.standby.dsn("nothing"))
    secret = await trouble_of(site, rows.standby.dsn(password="the-wrong-one"))
    assert "refuses the login" in secret
    assert "the-wrong-one" not in secret


async def test_the_primary_may_be_its_own_replica_and_nothing_is_written_there(site: Site, rows: Pair) -> None:
    app = make_app(RequestClient(site.db, settings(rows.primary.dsn())))
    watch: ReplicaWatch = app.state.replica
    watch.start()
    await until(lambda: watch.state.trouble is None, "it to be read")

    for db in (watch.replica, site.watch.replica):
        with pytest.raises((asyncpg.ReadOnlySQLTransactionError, DatabaseError)):
            await db.execute("DELETE FROM variable")
        async with db.for_query() as query:
            raw = (await query.get_raw_connection()).driver_connection
            assert await raw.fetchval("SHOW transaction_read_only") == "on"
    await watch.close()


@pytest.mark.parametrize("wrong", ["mysql://a:hidden@b/c", "postgresql://u:hidden@host:port/x"])
async def test_an_address_that_is_none_is_refused_by_every_process_and_its_password_is_not_shown(
    dsn: str, wrong: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        await Database.open(dsn, settings=DatabaseSettings(read_dsn=wrong))

    assert "hidden" not in str(raised.value)


async def test_without_a_replica_nothing_more_is_asked_and_nothing_stands_in_between(site: Site) -> None:
    app = make_app(RequestClient(site.db, settings(None)))
    assert site.db.statements is not None
    transport = httpx2.ASGITransport(app=app)
    counts = {}
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost/") as plain:
        for name, client in {"without": plain, "with": site.client}.items():
            for method in ("GET", "PUT"):
                await site.watch.close()  # its questions are counted, too
                before = site.db.statements.total
                body = {"json": {"value": "x"}} if method == "PUT" else {}
                answer = await client.request(method, "/api/v1/variables/v", **body)
                counts[name, method] = site.db.statements.total - before
                assert (HEADER in answer.headers) == (name == "with" and method == "PUT")

    assert app.state.replica is None
    assert ReplicaGate not in {middleware.cls for middleware in app.user_middleware}
    assert counts["without", "GET"] == counts["with", "GET"]
    assert counts["without", "PUT"] == counts["with", "PUT"] - 1


async def test_what_a_page_has_missed_while_nobody_listened_is_read_again_and_not_older(site: Site, rows: Pair) -> None:
    """As one whose web server has ended, and that comes to another one, which has no pages yet."""
    before = await store(site, "old")
    await rows.hold_replay()
    await store(site, "missed")
    stream = site.app.state.hub.stream(frozenset(), "another-7")
    known, told = before, []

    async with asyncio.timeout(PATIENCE):
        async for message in stream:
            for event in message.decode().strip().split("\n\n"):
                if event.startswith("event: position"):
                    known = max(known, event.split()[-1])
                if "reset" in event:
                    told.append(await variable(site, known))
            if len(told) == 2:
                break

    assert told == ["missed", "missed"]  # at once, and when changes are heard
    await stream.aclose()


async def test_any_user_may_be_that_of_a_web_server(site: Site, rows: Pair) -> None:
    await site.db.execute("CREATE ROLE plain LOGIN PASSWORD 'word' IN ROLE pg_read_all_data")
    await rows.catch_up()
    dsns = [server.dsn(user="plain", password="word") for server in (rows.primary, rows.standby)]
    async with await Database.open(dsns[0], application_name="web") as db:
        app = make_app(RequestClient(db, settings(dsns[1])))
        app.state.replica.start()
        await until(lambda: app.state.replica.state.trouble is None, "it to be read")
        await app.state.replica.close()


async def test_a_replica_that_hangs_holds_nobody_for_long(
    site: Site, rows: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store(site, "x")
    await rows.catch_up()
    assert await variable(site, "0/0") == "x"
    number = int((rows.standby.folder / "pg" / "postmaster.pid").read_text().split()[0])
    server = [psutil.Process(number), *psutil.Process(number).children()]
    monkeypatch.setattr(replica_watch, "ANSWER_SECONDS", 1.5)
    site.watch.looked.clear()
    await site.watch.looked.wait()  # the next look has it
    suspend(server)
    try:
        async with asyncio.timeout(PATIENCE):
            found = await asyncio.gather(*(variable(site, "0/0") for _ in range(20)))
            await until(lambda: site.watch.state.trouble is not None, "it to be noticed")
        assert all(conn.is_closed() for conn in site.watch.replica._open)  # no later request meets one of them
    finally:
        for process in server:
            process.send_signal(signal.SIGCONT)
    assert set(found) == {"x"}
    await site.until_read()


async def test_doctor_says_how_far_it_is_behind_and_why_it_is_not_read(site: Site, rows: Pair, dsn: str) -> None:
    async def said(read_dsn: str) -> tuple[str, str]:
        found = await doctor._replica(site.db, read_dsn, settings(read_dsn).database)
        return found.status, found.text

    await rows.catch_up()
    where = f"127.0.0.1:{rows.standby.port}"
    assert await said(rows.standby.dsn()) == ("ok", f"the replica at {where} has everything")

    await rows.hold_replay()
    await store(site, "more")
    status, text = await said(rows.standby.dsn())
    assert status == "ok"
    assert re.fullmatch(rf"the replica at {where} has not replayed the last [\d,]+ bytes of the log", text)

    status, text = await said(dsn)
    assert status == "warning"
    assert "is not read: it belongs to another cluster" in text
    status, text = await said(rows.standby.dsn(password="wrong-one"))
    assert status == "warning"
    assert "refuses the login" in text
    assert "wrong-one" not in text


@contextlib.asynccontextmanager
async def own_site(pair: Pair, dsn: str) -> AsyncIterator[Site]:
    """A web server on a pair of the test's own; `dsn` leads to the primary."""
    await migrate(pair.primary.dsn())
    await pair.start_standby()
    async with await Database.open(dsn, application_name="web") as db:
        app = make_app(RequestClient(db, settings(pair.standby.dsn())))
        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost/") as client:
            site = Site(app, db, client, None)
            site.watch.start()
            await site.until_read()
            yield site
        await site.watch.close()


async def test_a_replica_that_was_promoted_beside_its_primary_is_not_read(caplog: pytest.LogCaptureFixture) -> None:
    """Its log may be longer than that of the primary, and has other things."""
    with a_pair(binaries()) as pair:
        async with own_site(pair, pair.primary.dsn()) as site:
            await store(site, "old")
            await pair.catch_up()
            assert await variable(site, "0/0") == "old"

            await pair._control(pair.standby, "promote")
            promoted = await asyncpg.connect(pair.standby.dsn())
            await promoted.execute("CREATE TABLE longer AS SELECT generate_series(1, 10000)")
            await promoted.close()
            position = await store(site, "new")

            assert await variable(site, position) == "new"
            await until(lambda: site.watch.state.trouble is not None, "the promotion to be noticed")
            assert "it follows timeline 2, and the primary is in timeline 1" in caplog.text
            assert await variable(site, "0/0") == "new"


async def test_a_replica_that_takes_over_is_the_primary_and_is_read_on() -> None:
    with a_pair(binaries()) as pair:
        async with own_site(pair, pair.dsn) as site:
            await store(site, "old")
            await pair.keep_in_step()
            await pair.let_go()

            await pair.fail_over()
            await until(
                lambda: site.watch.replica.primary is not None and site.watch.replica.primary.timeline == 2,
                "the other primary",
            )
            await site.until_read()

            position = await store(site, "new")
            answer, is_of_replica, _ = await site.asked("/api/v1/variables/v", position)
            assert (answer.json()["value"], is_of_replica) == ("new", True)


@pytest.mark.slow
@pytest.mark.parametrize("version", OLDER_SERVERS)
async def test_older_servers_tell_the_same(version: int) -> None:
    with a_pair(OLDER_SERVERS[version]) as pair:
        async with own_site(pair, pair.primary.dsn()) as site:
            before = await store(site, "old")
            await pair.hold_replay()
            after = await store(site, "new")

            assert [await variable(site, position) for position in (before, after)] == ["old", "new"]
            await pair.replay()
