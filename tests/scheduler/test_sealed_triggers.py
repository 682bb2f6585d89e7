"""What triggers are given is encrypted at rest: the semantics reference, section 25.1."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aiosched.clock import FakeClock
from aiosched.core.values.messages import Attempt
from aiosched.db.crypto.keyring import Keyring, new_key
from aiosched.db.people.secrets import SecretStore, VariableValue
from aiosched.db.server.engine import Database
from tests.scheduler.harness import Running, ScriptedExecutor, dag, running, task

KWARGS = "SELECT kwargs #>> '{}', next_kwargs #>> '{}' FROM deferred_trigger ORDER BY run_id, task_index"


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> list[Keyring]:
    """The keyring that schedulers of the test use is the last one of this list."""
    rings: list[Keyring] = [Keyring(new_key())]
    monkeypatch.setattr(Keyring, "of", classmethod(lambda cls, settings: rings[-1]))
    return rings


async def deferred(it: Running, task_id: str = "a") -> Attempt:
    it.executor.defer(await it.attempt(task_id, "r"))
    await it.settled()
    return await it.trigger_of(task_id, "r")


async def stored(it: Running) -> list[tuple[str, str]]:
    return [tuple(row) for row in await it.fetch(KWARGS)]


async def test_arguments_are_tokens_in_the_database_and_plain_for_trigger_and_task(
    dsn: str, clock: FakeClock, keys: list[Keyring]
) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        trigger = await deferred(it)
        assert trigger.trigger is not None
        assert trigger.trigger.kwargs == '{"n": 1}'
        (tokens,) = await stored(it)
        assert [keys[0].decrypt(token, what="it") for token in tokens] == ['{"n": 1}', '{"a": 1}']
        await it.assert_consistent()

    async with running(dsn, clock) as again:
        trigger = await again.trigger_of("a")
        assert trigger.trigger is not None
        assert (trigger.trigger.kwargs, trigger.trigger.next_kwargs) == ('{"n": 1}', '{"a": 1}')
        again.executor.fire(trigger, 1)
        resumed = await again.attempt("a")
        assert resumed.resume is not None
        assert resumed.resume.next_kwargs == '{"a": 1}'
        ((kwargs, next_kwargs),) = await stored(again)
        assert kwargs == "{}", "what has fired needs no arguments any more"
        assert keys[0].decrypt(next_kwargs, what="it") == '{"a": 1}'
        await again.finish("a")
        assert await again.runs("d") == {"r": "success"}


async def test_rows_of_version_0_1_are_still_read(dsn: str, clock: FakeClock, keys: list[Keyring]) -> None:
    keys.append(Keyring())
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        await deferred(it)
        assert [tuple(map(json.loads, row)) for row in await stored(it)] == [({"n": 1}, {"a": 1})]

    keys.append(Keyring(new_key()))
    async with running(dsn, clock) as again:
        again.executor.fire(await again.trigger_of("a"), 1)
        resumed = await again.attempt("a")
        assert resumed.resume is not None
        assert (resumed.resume.event, resumed.resume.next_kwargs) == ("1", '{"a": 1}')


async def test_a_rotation_reaches_what_waits(dsn: str, clock: FakeClock, keys: list[Keyring]) -> None:
    old, new = new_key(), new_key()
    keys.append(Keyring(old))
    async with running(dsn, clock, dag("d", task("a"), task("b"))) as it:
        await it.trigger("d", "r")
        await deferred(it, "a")
        await deferred(it, "b")

        assert await SecretStore(it.db, Keyring(f"{new},{old}")).rotate(requested_by="me") == 2

        audit = await it.fetch("SELECT args -> 'triggers' FROM request WHERE verb = 'rotate_keys'")
        assert audit == [("2",)]

    keys.append(Keyring(new))
    async with running(dsn, clock) as again:
        trigger = await again.trigger_of("b")
        assert trigger.trigger is not None
        assert trigger.trigger.kwargs == '{"n": 1}'


async def test_a_lost_key_fails_the_task_by_its_rules_and_names_the_remedy(
    dsn: str, clock: FakeClock, keys: list[Keyring]
) -> None:
    async with running(dsn, clock, dag("d", task("a", retries=1, retry_delay=1.0))) as it:
        await it.trigger("d", "r")
        await deferred(it)

    keys.append(Keyring(new_key()))
    async with running(dsn, clock) as again:
        resumed = await again.attempt("a")
        assert resumed.resume is not None
        assert "No key that this process has can decrypt the arguments of its trigger" in (resumed.resume.error or "")
        again.executor.fail(resumed)
        await again.advance(2)
        assert (await again.attempt("a")).resume is None
        await again.assert_consistent()


async def test_a_key_file_is_made_for_the_first_trigger_and_a_lost_one_is_not_replaced(
    dsn: str, db: Database, clock: FakeClock, keys: list[Keyring], tmp_path: Path
) -> None:
    file = tmp_path / "fernet.key"
    keys.append(Keyring(file=file))
    async with running(dsn, clock, dag("d", task("a"), task("b"))) as it:
        await it.trigger("d", "r")
        await deferred(it, "a")
        assert file.exists()
        await SecretStore(db, keys[-1]).set_variables({"v": VariableValue("1")})
        file.rename(tmp_path / "elsewhere")

        await deferred(it, "b")

        assert not file.exists()
        first, second = await stored(it)
        assert first[0].startswith("gAAAA")
        assert json.loads(second[0]) == {"n": 1}


async def test_keys_that_are_wrong_hold_nobody_up(
    dsn: str, clock: FakeClock, keys: list[Keyring], caplog: pytest.LogCaptureFixture
) -> None:
    keys.append(Keyring("no key"))
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        it.executor.fire(await deferred(it), 1)
        await it.finish("a")
        assert await it.runs("d") == {"r": "success"}
    assert "stored as readable text" in caplog.text


async def test_a_run_that_defers_nothing_asks_for_no_key(
    dsn: str, clock: FakeClock, keys: list[Keyring], monkeypatch: pytest.MonkeyPatch
) -> None:
    for use in ("encrypt", "encrypt_all", "decrypt"):
        monkeypatch.setattr(Keyring, use, lambda *_, **__: pytest.fail("a key was used"))
    executor = ScriptedExecutor(clock, script=lambda it, attempt: it.succeed(attempt, value=1))
    async with running(dsn, clock, dag("d", *(task(f"t{i}") for i in range(20))), executor=executor) as it:
        await it.trigger("d", "r")
        await it.settled()
        assert await it.runs("d") == {"r": "success"}
