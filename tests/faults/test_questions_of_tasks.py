"""What tasks ask while connections break: each is told the answer, and what it changes is changed once."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.values.messages import XComRef
from aiosched.db.crypto.keyring import Keyring, new_key
from aiosched.db.people.secrets import SecretStore, VariableValue
from aiosched.db.server.engine import Database
from aiosched.errors import AttemptStopped, NotFound, Refused
from aiosched.scheduler.services import task_services
from aiosched.scheduler.services.secret_services import secret_services
from aiosched.scheduler.services.task_services import SERVICES, DatabaseServices
from tests.faults.injection import When, faults, nth, once
from tests.patience import PATIENCE
from tests.scheduler.harness import Running, dag, running

KEYRING = Keyring(new_key())


class Held:
    """A lease that can be lost."""

    def __init__(self, times: int | None = None) -> None:
        self.left = times

    def trusted(self) -> bool:
        if self.left is not None:
            self.left -= 1
        return self.left is None or self.left >= 0


def services_of(db: Database, lease: Held) -> DatabaseServices:
    return DatabaseServices(db, {**SERVICES, **secret_services(KEYRING)}, lease=lambda: lease)


async def call(services: DatabaseServices, name: str, *, run: int = 0, **args: Any) -> Any:
    return json.loads(await services.call(run, name, json.dumps(args)))


Ask = Callable[[DatabaseServices], Awaitable[Any]]
QUESTIONS: dict[str, tuple[Ask, Any, dict[str, int]]] = {  # with the answer, and the lines that stay in the audit log
    "get a variable": (lambda s: call(s, "variable", get="kept"), {"value": "1"}, {}),
    "set a variable": (lambda s: call(s, "variable", set="new", value="2"), {}, {"set_variable": 1}),
    "delete a variable": (lambda s: call(s, "variable", delete="kept"), {}, {"delete_variable": 1}),
    "get a connection": (lambda s: call(s, "connection", get="nobody"), {"value": None}, {}),
    "get XComs": (lambda s: s.get_xcoms(1, [XComRef("a")]), [[]], {}),
    "find XComs": (lambda s: call(s, "xcoms", refs=[XComRef("a")], earlier=True), {"pairs": [[]], "hint": None}, {}),
    "the state of a run": (
        lambda s: call(s, "run_state", dag_id="d", run_id="r"), {"dag_exists": False, "run": None}, {},
    ),
    "the states of tasks": (
        lambda s: call(s, "task_states", dag_id="d", run_id="r", task_ids=["a"]),
        {"dag_exists": False, "unknown": [], "run": None, "tasks": []},
        {},
    ),
    "assets": (lambda s: call(s, "check_assets", names=[], uris=[]), {}, {}),
    "events": (lambda s: call(s, "triggering_asset_events"), [], {}),
}  # fmt: skip


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", QUESTIONS)
async def test_a_connection_that_breaks_at_any_statement_costs_no_answer(dsn: str, name: str, when: When) -> None:
    ask, answer, lines = QUESTIONS[name]
    async with await Database.open(dsn, application_name="test") as looking:
        store = SecretStore(looking, KEYRING)
        with faults() as injected:
            for number in itertools.count(1):
                await store.set_variables({"kept": VariableValue("1")})
                async with looking.acquire() as conn:
                    await conn.execute("DELETE FROM request; DELETE FROM variable WHERE key = 'new'")
                async with await Database.open(dsn) as db:
                    injected.calls, injected.fail = 0, nth(number, when)
                    injected.fired.clear()

                    assert await ask(services_of(db, Held())) == answer

                async with looking.acquire() as conn:
                    assert Counter(row[0] for row in await conn.fetch("SELECT verb FROM request")) == Counter(lines)
                if not injected.fired:  # it has fewer statements
                    break
    assert number > 1


REQUEST = (
    "request WHERE idempotency_key",
    "AS task_ids",
    "FROM dag_run WHERE id",
    "INSERT INTO request",
    "SELECT id, state",
)


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_run_is_triggered_once_whatever_breaks(dsn: str, clock: FakeClock, when: When) -> None:
    async with running(dsn, clock, dag("other")) as it:
        for number, statement in enumerate(REQUEST):
            with faults() as injected:
                async with await Database.open(dsn) as db:
                    injected.fail = once(statement, when)

                    answer = await call(services_of(db, Held()), "trigger_dag", dag_id="other")

            assert injected.fired, statement
            await it.settled()
            assert list(await it.runs("other"))[number:] == [answer["run_id"]], statement


async def test_a_run_whose_dag_is_paused_after_the_request_is_no_refusal(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("other")) as it:
        paused, made = False, once("INSERT INTO request", "after")

        def fail(number: int, statement: str) -> When | None:
            waits = injected.fired and not paused and "request WHERE idempotency_key" in statement
            return "before" if waits else made(number, statement)

        with faults() as injected:
            async with await Database.open(dsn) as db:
                injected.fail = fail
                question = call(services_of(db, Held()), "trigger_dag", dag_id="other", fail_when_paused=True)
                asking = asyncio.ensure_future(question)
                await it.until(lambda: injected.fired, "the request")
                await it.execute("UPDATE dag SET is_paused = true")
                paused = True

                answer = await asking

        assert answer == {"run_id": next(iter(await it.runs("other"))), "is_paused": True}


async def test_an_owner_who_takes_his_time_is_no_failure(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_services, "PATIENCE", 0.01)
    async with running(dsn, clock, dag("other")) as it:
        async with it.session.locks.ownership:
            asking = asyncio.ensure_future(call(services_of(it.db, Held()), "trigger_dag", dag_id="other"))
            await _asked_again(it)
            assert not asking.done()

        await asking
        assert len(await it.runs("other")) == 1
        assert len(await it.fetch("SELECT 1 FROM request WHERE verb = 'trigger'")) == 1


async def _asked_again(it: Running) -> None:
    """Return when a request was made twice: its row has a second version."""
    async with asyncio.timeout(PATIENCE):
        while not await it.fetch("SELECT 1 FROM request WHERE xmax <> 0"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_what_another_task_stored_meanwhile_stays(dsn: str) -> None:
    async with await Database.open(dsn, application_name="test") as looking:
        store = SecretStore(looking, KEYRING)
        overwritten, committed = False, once("COMMIT", "after")

        def fail(number: int, statement: str) -> When | None:
            waits = injected.fired and not overwritten
            return "before" if waits else committed(number, statement)

        with faults() as injected:
            async with await Database.open(dsn) as db:
                injected.fail = fail
                asking = asyncio.ensure_future(call(services_of(db, Held()), "variable", set="cursor", value="mine"))
                async with asyncio.timeout(PATIENCE):
                    while not await store.get_variables(["cursor"]):  # noqa: ASYNC110
                        await asyncio.sleep(0)
                await store.set_variables({"cursor": VariableValue("theirs")})
                overwritten = True

                assert await asking == {}

        assert (await store.get_variable("cursor")).value == "theirs"


async def test_a_lost_lease_ends_the_attempt_that_asks(db: Database) -> None:
    with faults() as injected:
        async with await Database.open(db.dsn) as other:
            injected.fail = lambda number, statement: "before"

            with pytest.raises(AttemptStopped, match="lease"):
                await call(services_of(other, Held(times=2)), "variable", get="kept")

            asked = [statement for statement in injected.fired if "SELECT d.team" in statement]
            assert len(asked) == 3  # at first, and twice again while the lease held


async def test_answers_reach_the_task_at_once(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("other", is_paused_upon_creation=True)) as it:
        services = services_of(it.db, Held())

        with pytest.raises(NotFound):
            await call(services, "variable", delete="nothing")
        with pytest.raises(NotFound):
            await call(services, "trigger_dag", dag_id="nobody")
        with pytest.raises(Refused):
            await call(services, "trigger_dag", dag_id="other", fail_when_paused=True)
        assert await it.fetch("SELECT verb FROM request WHERE verb LIKE '%variable'") == []
