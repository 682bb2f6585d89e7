"""Pools: set twice is set once, deleting is guarded, every change is in the audit log.

Source: the semantics reference, section 18.1.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import asyncpg
import pytest

from aiosched.db.names.existing import IfExists
from aiosched.db.people.pools import Pool, delete_pool, get_pool, list_pools, set_pool
from aiosched.db.server.engine import Database
from aiosched.db.statements.inbox import NOTIFY_CHANNEL
from aiosched.errors import NotFound, Refused
from tests.patience import PATIENCE


async def audit_log(db: Database) -> list[tuple[Any, ...]]:
    rows = await db.fetch("SELECT verb, args, requested_by, state, result FROM request ORDER BY id")
    return [(r["verb"], json.loads(r["args"]), r["requested_by"], r["state"], json.loads(r["result"])) for r in rows]


async def use(db: Database, name: str, slots: int) -> None:
    await db.execute("UPDATE pool SET used = $2 WHERE name = $1", name, slots)


async def test_the_default_pool_is_there_with_128_slots(db: Database) -> None:
    (pool,) = await list_pools(db)

    assert (pool.name, pool.slots, pool.open, pool.include_deferred) == ("default_pool", 128, 128, False)


async def test_setting_a_new_pool_makes_it_and_setting_it_again_changes_nothing(db: Database) -> None:
    first = await set_pool(db, "etl", 4, description="loads", requested_by="me")
    second = await set_pool(db, "etl", 4, requested_by="me")

    assert first.before is None
    assert first.after == second.before == second.after == Pool("etl", 4, 0, False, "loads")
    assert (first.changed, second.changed) == (True, False)
    assert len(await audit_log(db)) == 1


async def test_setting_keeps_what_is_not_named(db: Database) -> None:
    await set_pool(db, "etl", 4, include_deferred=True, description="loads", requested_by="me")
    await use(db, "etl", 3)

    change = await set_pool(db, "etl", 2, requested_by="me")

    assert change.after == Pool("etl", 2, 3, True, "loads")
    assert change.after.open == -1


async def test_a_change_is_in_the_audit_log_and_wakes_the_schedulers(db: Database) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    listener = await db.connect()
    await listener.add_listener(NOTIFY_CHANNEL, lambda *call: heard.put_nowait(call[-1]))

    await set_pool(db, "etl", 4, requested_by="me")

    async with asyncio.timeout(PATIENCE):
        assert await heard.get() == "pools "
    await listener.close()
    args = {"name": "etl", "slots": 4, "include_deferred": False, "rate": None}
    assert await audit_log(db) == [("set_pool", args, "me", "applied", {"before": None})]


async def test_a_rate_is_stored_in_one_form_kept_changed_and_removed(db: Database) -> None:
    made = await set_pool(db, "api", 4, rate=" 60 / 3600s", requested_by="me")
    same = await set_pool(db, "api", 4, rate="60/h", requested_by="me")
    kept = await set_pool(db, "api", 5, requested_by="me")
    gone = await set_pool(db, "api", 5, rate="", requested_by="me")

    assert [change.after.rate for change in (made, same, kept, gone)] == ["60/h", "60/h", "60/h", None]
    assert (same.changed, gone.changed) == (False, True)
    with pytest.raises(Refused, match="such as 100/min"):
        await set_pool(db, "api", 5, rate="1/fortnight", requested_by="me")


async def test_the_row_of_a_pool_admits_no_rate_that_could_not_be_read(db: Database) -> None:
    async with db.acquire() as conn:
        for rate in ("fast", "0/s", "1/0s", "1/month", "1/s\n", "12345678/s"):
            with pytest.raises(asyncpg.CheckViolationError):
                await conn.execute("UPDATE pool SET rate = $1", rate)


async def test_two_people_who_make_the_same_pool_do_not_collide(db: Database) -> None:
    await asyncio.gather(*(set_pool(db, "etl", slots, requested_by="me") for slots in (1, 2, 3)))

    assert (await get_pool(db, "etl")).slots in (1, 2, 3)


async def test_an_infinite_pool_has_no_number_of_open_slots(db: Database) -> None:
    change = await set_pool(db, "etl", -1, requested_by="me")

    assert change.after.open is None


@pytest.mark.parametrize(("name", "slots"), [("", 1), ("x" * 251, 1), ("etl", -2)])
async def test_a_pool_that_cannot_be_is_refused(db: Database, name: str, slots: int) -> None:
    with pytest.raises(Refused):
        await set_pool(db, name, slots, requested_by="me")


@pytest.mark.parametrize("name", [".", "..", " ", "a ", "a/queue", "a/figures"])
async def test_a_new_pool_has_a_name_that_an_address_can_have(db: Database, name: str) -> None:
    with pytest.raises(Refused, match="choose another"):
        await set_pool(db, name, 1, requested_by="me")
    await db.execute("INSERT INTO pool (name, slots) VALUES ($1, 1)", name)

    await set_pool(db, name, 2, requested_by="me")
    assert (await get_pool(db, name)).slots == 2
    await delete_pool(db, name, requested_by="me")


async def test_an_unused_pool_is_deleted(db: Database) -> None:
    await set_pool(db, "etl", 4, requested_by="me")

    gone = await delete_pool(db, "etl", requested_by="me", reason="not needed")

    assert gone.slots == 4
    assert [pool.name for pool in await list_pools(db)] == ["default_pool"]
    assert [entry[0] for entry in await audit_log(db)] == ["set_pool", "delete_pool"]


async def test_a_pool_in_use_and_the_default_pool_are_not_deleted(db: Database) -> None:
    await set_pool(db, "etl", 4, requested_by="me")
    await use(db, "etl", 2)

    with pytest.raises(Refused, match="2 slots of pool 'etl' are in use"):
        await delete_pool(db, "etl", requested_by="me")
    with pytest.raises(Refused, match="default_pool cannot be deleted"):
        await delete_pool(db, "default_pool", requested_by="me")

    assert {pool.name for pool in await list_pools(db)} == {"default_pool", "etl"}


async def test_an_unknown_pool_is_refused_with_near_names(db: Database) -> None:
    await set_pool(db, "etl", 4, requested_by="me")

    for call in (get_pool(db, "elt"), delete_pool(db, "elt", requested_by="me")):
        with pytest.raises(NotFound, match=r"There is no pool 'elt'\. Did you mean etl\?"):
            await call


async def test_a_pool_that_exists_is_left_or_refused_as_one_asks(db: Database) -> None:
    await set_pool(db, "etl", 4, description="loads", requested_by="me")

    left = await set_pool(db, "etl", 8, existing=IfExists.SKIP, requested_by="me")
    with pytest.raises(Refused, match="The pool 'etl' exists already"):
        await set_pool(db, "etl", 8, existing=IfExists.FAIL, requested_by="me")
    with pytest.raises(NotFound, match="There is no pool 'elt' to change"):
        await set_pool(db, "elt", 8, existing=IfExists.REQUIRE, requested_by="me")

    assert not left.changed
    assert await get_pool(db, "etl") == Pool("etl", 4, 0, False, "loads")
