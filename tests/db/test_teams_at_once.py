"""Teams that one person deletes while another gives them something: the second one is told that the team is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from aiosched.db.crypto.keyring import Keyring, new_key
from aiosched.db.people import teams
from aiosched.db.people.pools import set_pool
from aiosched.db.people.secrets import SecretStore, VariableValue
from aiosched.db.people.teams import DELETE
from aiosched.db.server.engine import Database
from aiosched.errors import NotFound, Refused
from tests.patience import PATIENCE

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


async def give_folder(db: Database) -> None:
    await teams.add_folder(db, "sales", "reports")


async def give_pool(db: Database) -> None:
    await set_pool(db, "reports", 3, team="sales", requested_by="ann")


async def give_variable(db: Database) -> None:
    await SecretStore(db, Keyring(new_key())).set_variables({"region": VariableValue("eu")}, team="sales")


@pytest.mark.parametrize("give", [give_folder, give_pool, give_variable])
async def test_what_is_given_to_a_team_that_is_just_deleted_is_refused(
    db: Database, give: Callable[[Database], Awaitable[None]]
) -> None:
    await teams.create_team(db, "sales")
    async with db.transaction() as conn:
        assert await conn.fetchval(DELETE, "sales") == 1
        giving = asyncio.ensure_future(give(db))
        async with db.acquire() as looking, asyncio.timeout(PATIENCE):
            while not await looking.fetchval(WAITING):
                assert not giving.done(), giving.result()
                await asyncio.sleep(0.01)

    with pytest.raises(NotFound, match="There is no team 'sales'"):
        await giving


async def test_a_team_is_created_with_all_of_its_folders_or_not_at_all(db: Database) -> None:
    first = await teams.create_team(db, "sales", folders=["reports", "bundle:reports"])
    assert first.folders == ("reports", "bundle:reports")

    with pytest.raises(Refused, match="'reports' belongs to the team 'sales'"):
        await teams.create_team(db, "ops", folders=["jobs", "reports"])

    assert [team.name for team in await teams.list_teams(db)] == ["sales"]
