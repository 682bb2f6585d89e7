"""News for open pages: patches from rows, resumed by number, ended when the server stops."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from aiosched.db.server.engine import Database
from aiosched.db.statements import inbox, run_changes
from aiosched.web.views import live
from aiosched.web.views.live import Hub
from tests.cli.records import add_dag, add_run, add_scheduler, add_task, quarantine
from tests.databases import TEMPLATE, Server
from tests.patience import PATIENCE


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "SPREAD_SECONDS", 0.0)


@pytest.fixture
async def hub(db: Database) -> AsyncIterator[Hub]:
    hub = Hub(db)
    yield hub
    hub.close()


class Page:
    """A browser page: reads its stream message by message."""

    def __init__(self, hub: Hub, *runs: int, last: str | None = None) -> None:
        self.stream = hub.stream(frozenset(runs), last)
        self.last = last

    async def message(self) -> dict[str, Any]:
        """The next patch, `{"event": "reset"}` for a reset; messages about the status are passed over."""
        while True:
            text = (await anext(self.stream)).decode()
            fields = dict(line.split(": ", 1) for line in text.strip().splitlines() if not line.startswith(":"))
            if "id" in fields:
                self.last = fields["id"]
                return {"event": fields["event"]} if "event" in fields else dict(json.loads(fields["data"]))

    async def until(self, kind: str) -> dict[str, Any]:
        """The next patch of a kind."""
        while (message := await self.message()).get("kind") != kind:
            pass
        return message


async def opened(hub: Hub, *runs: int, last: str | None = None) -> Page:
    """A page whose hub listens already."""
    page = Page(hub, *runs, last=last)
    assert await anext(page.stream) == b"retry: 2000\n\n"
    await hub.listening.wait()
    return page


async def changed(db: Database, *runs: int) -> None:
    await run_changes.publish_runs(db, runs)


async def test_a_changed_run_is_told_with_its_new_columns(db: Database, hub: Hub) -> None:
    run = await add_run(db, "sales", await add_dag(db, "sales"), "r1", state="success")
    page = await opened(hub)

    await changed(db, run)

    patch = await page.until("run")
    assert (patch["key"], patch["dag_id"], patch["run_id"], patch["state"]) == (run, "sales", "r1", "success")


async def test_instances_are_told_to_those_who_watch_their_run_and_only_what_changed(db: Database, hub: Hub) -> None:
    run = await add_run(db, "sales", await add_dag(db, "sales"), "r1")
    await add_task(db, run, 0, "success")
    await add_task(db, run, 1, "running")
    page, other = await opened(hub, run), await opened(hub)

    await changed(db, run)
    first = await page.until("task")
    await db.execute("UPDATE task_instance SET state = 'failed' WHERE task_index = 1")
    await changed(db, run)
    second = await page.until("task")
    await inbox.notify(db, "pools", ())
    heard = [(await other.message())["kind"] for _ in range(3)]

    assert [task["state"] for task in first["tasks"]] == ["success", "running"]
    assert [(task["task_index"], task["state"]) for task in second["tasks"]] == [(1, "failed")]
    assert first["counts"] == {"0": {"success": 1}, "1": {"running": 1}}
    assert second["counts"] == {"1": {"failed": 1}}
    assert heard == ["run", "run", "pool"]


async def test_the_fleet_is_told_when_a_scheduler_comes_and_when_it_is_dead(
    db: Database, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "POLL_INTERVAL", 0.01)
    page = await opened(hub)
    await inbox.notify(db, "pools", ())
    await page.until("pool")  # the first look is over

    incarnation = await add_scheduler(db, "one")
    came = await page.until("scheduler")
    await db.execute("UPDATE scheduler SET lease_expires_at = now() WHERE incarnation = $1", incarnation)
    died = await page.until("scheduler")

    assert came == died == {"kind": "scheduler"}


async def test_more_changes_than_a_patch_should_hold_are_told_as_many(
    db: Database, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST_PATCHED", 1)
    run = await add_run(db, "sales", await add_dag(db, "sales"), "r1")
    await add_task(db, run, 0, "success")
    await add_task(db, run, 1, "running")
    page = await opened(hub, run)

    await changed(db, run)

    counts = {"0": {"success": 1}, "1": {"running": 1}}
    assert await page.until("task") == {"kind": "task", "run": run, "many": True, "counts": counts}


async def test_instances_of_a_mapped_task_are_told_with_all_of_their_counts(db: Database, hub: Hub) -> None:
    run = await add_run(db, "sales", await add_dag(db, "sales"), "r1")
    for map_index in range(3):
        await add_task(db, run, 1, "queued", map_index=map_index)
    page = await opened(hub, run)
    await changed(db, run)
    await page.until("task")

    await db.execute("UPDATE task_instance SET state = 'success' WHERE run_id = $1 AND map_index = 0", run)
    await changed(db, run)
    one_ended = await page.until("task")
    await db.execute("DELETE FROM task_instance WHERE run_id = $1", run)
    await changed(db, run)
    all_gone = await page.until("task")

    assert [task["map_index"] for task in one_ended["tasks"]] == [0]
    assert one_ended["counts"] == {"1": {"success": 1, "queued": 2}}
    assert all_gone == {"kind": "task", "run": run, "many": True, "counts": {"1": {}}}


async def test_counts_are_not_told_where_not_all_instances_are_read(
    db: Database, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST_TASKS", 1)
    run = await add_run(db, "sales", await add_dag(db, "sales"), "r1")
    await add_task(db, run, 0, "success")
    await add_task(db, run, 1, "running")
    page = await opened(hub, run)

    await changed(db, run)

    assert "counts" not in await page.until("task")


@pytest.mark.parametrize(("news", "kind"), [("dags", "dag"), ("pools", "pool"), ("assets", "asset")])
async def test_news_to_schedulers_are_told_to_browsers(db: Database, hub: Hub, news: str, kind: str) -> None:
    page = await opened(hub)

    await inbox.notify(db, news, (1,))

    assert (await page.until(kind)) == {"kind": kind}


async def test_an_answered_request_is_told_with_its_dag(db: Database, hub: Hub) -> None:
    page = await opened(hub)
    async with db.acquire() as conn:
        number = await inbox.send_request(conn, verb="pause", dag_id="sales", args={}, requested_by="test")
        await inbox.announce_applied(conn, [number])

    patch = await page.until("command")

    assert (patch["id"], patch["dag_id"], patch["verb"]) == (number, "sales", "pause")


async def test_a_page_that_was_away_goes_on_behind_the_number_it_has(db: Database, hub: Hub) -> None:
    version = await add_dag(db, "sales")
    first, second = [await add_run(db, "sales", version, run_id) for run_id in ("r1", "r2")]
    page, stays = await opened(hub), await opened(hub)
    await changed(db, first)
    await page.until("run")
    await page.stream.aclose()
    await changed(db, second)
    await stays.until("run")
    await stays.until("run")

    again = await opened(hub, last=page.last)

    assert (await again.until("run"))["key"] == second


@pytest.mark.parametrize("last", ["other-1", "nonsense", "-"])
async def test_a_number_of_another_server_means_begin_again(db: Database, hub: Hub, last: str) -> None:
    page = await opened(hub, last=last)

    assert await page.message() == {"event": "reset"}


async def test_a_page_that_is_too_slow_begins_again(db: Database, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "QUEUED", 2)
    page = await opened(hub)

    for _ in range(3):
        hub._send({"kind": "dag"})

    assert await page.message() == {"event": "reset"}


async def test_schedulers_are_asked_to_tell_while_somebody_looks(db: Database, hub: Hub) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    conn = await db.connect()
    await conn.add_listener(inbox.NOTIFY_CHANNEL, lambda *args: heard.put_nowait(args[-1]))

    await opened(hub)

    assert inbox.read_notification(await heard.get()) == ("watch", frozenset())
    await conn.close()


async def test_streams_end_when_the_hub_is_closed(db: Database, hub: Hub) -> None:
    page = await opened(hub)

    hub.close()

    assert [message async for message in page.stream] == []


async def test_a_lost_connection_is_made_anew_and_pages_begin_again(
    db: Database, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "AGAIN_SECONDS", 0.0)
    page = await opened(hub)
    conn = await db.connect()
    await conn.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'aiosched live changes'"
    )
    await conn.close()

    assert (await page.until("reset")) == {"kind": "reset"}


async def test_a_dag_that_goes_into_quarantine_or_is_tried_again_is_told(
    db: Database, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "POLL_INTERVAL", 0.01)
    for name in ("bad", "held"):
        await add_dag(db, name)
    await quarantine(db, "held")
    page = await opened(hub)
    assert await page.until("dag") == {"kind": "dag", "dag_id": "held"}  # the page may be older than its stream

    await quarantine(db, "bad")
    into = await page.until("dag")
    await db.execute("UPDATE dag_quarantine SET tried_at = now() WHERE dag_id = 'bad'")
    out = await page.until("dag")

    assert into == out == {"kind": "dag", "dag_id": "bad"}


# ---- a listener that fails ----


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AGAIN_SECONDS", "CLOSE_SECONDS", "READ_SECONDS"):
        monkeypatch.setattr(live, name, 0.1 if name == "AGAIN_SECONDS" else 1.0)


async def hears_again(page: Page, db: Database) -> None:
    """The page is told of what happens from now on."""
    async with asyncio.timeout(PATIENCE):
        assert await page.message() == {"kind": "reset"}  # what it has missed
        await inbox.notify(db, "pools", ())
        while (message := await page.message()).get("kind") != "pool":
            if message == {"kind": "reset"}:  # a second that it has for a question is soon over on a busy machine
                await inbox.notify(db, "pools", ())


def once(real: Callable[..., Awaitable[Any]], instead: Callable[[], Awaitable[None]]) -> Callable[..., Awaitable[Any]]:
    """`real`, but the first call is `instead`."""
    calls = iter([instead])

    async def call(*args: Any, **kwargs: Any) -> Any:
        if (first := next(calls, None)) is not None:
            await first()
        return await real(*args, **kwargs)

    return call


async def hang() -> None:
    await asyncio.Event().wait()


async def lose(db: Database) -> None:
    """End the connection that listens, from outside."""
    await db.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = 'aiosched live changes'"
    )


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("unable to perform operation on <UnixTransport closed=True>; the handler is closed"),  # uvloop's
        asyncpg.InvalidPasswordError("rotated"),
        asyncpg.InvalidCatalogNameError("renamed for a moment"),
        asyncpg.InternalServerError("of the server"),
        EOFError(),
        KeyError("a bug"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.usefixtures("soon")
async def test_whatever_fails_changes_are_heard_again(
    db: Database, hub: Hub, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    page = await opened(hub)

    async def fail() -> None:
        raise error

    monkeypatch.setattr(db, "connect", once(db.connect, fail))
    await lose(db)

    await hears_again(page, db)


@pytest.mark.parametrize(
    "what",
    [
        "connect",
        pytest.param("listen", marks=pytest.mark.slow),
        pytest.param("ask", marks=pytest.mark.slow),
        "close",
    ],
)
@pytest.mark.usefixtures("soon")
async def test_nothing_that_hangs_keeps_changes_from_being_heard_again(
    db: Database, hub: Hub, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    page = await opened(hub)
    place, name = {
        "connect": (db, "connect"),
        "listen": (asyncpg.Connection, "add_listener"),
        "ask": (run_changes, "watch"),
        "close": (asyncpg.Connection, "close"),
    }[what]
    monkeypatch.setattr(place, name, once(getattr(place, name), hang))

    await lose(db)

    await hears_again(page, db)


@pytest.mark.usefixtures("soon")
async def test_a_database_that_is_closed_for_maintenance_is_heard_again(db: Database, hub: Hub, server: Server) -> None:
    page = await opened(hub)
    name = await db.fetchval("SELECT current_database()")
    beside = await server.create(TEMPLATE)
    admin = await asyncpg.connect(beside)
    try:
        await admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        refused = asyncio.ensure_future(page.until("pool"))
        await admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
        await hub_notices(hub)
        await admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    finally:
        await admin.close()
        await server.drop(beside)

    async with asyncio.timeout(PATIENCE):
        await hub.listening.wait()
        await inbox.notify(db, "pools", ())
        assert (await refused)["kind"] == "pool"


async def hub_notices(hub: Hub) -> None:
    """Wait until it does not listen any more."""
    async with asyncio.timeout(PATIENCE):
        while hub.listening.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
