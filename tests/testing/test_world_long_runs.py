"""Runs so long that not all of their decisions are stored with one commit."""

from __future__ import annotations

import pytest

from aiosched.scheduler.memory import unstored
from aiosched.testing import World
from tests.testing.world_builders import NEW_YEAR, dag, task


async def test_what_is_decided_and_not_stored_yet_is_no_broken_invariant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unstored, "MOST_WAITING", 3)
    async with World(now=NEW_YEAR, parallelism=2) as world:
        world.add(dag("d", *(task(f"t{n}") for n in range(20))))
        run = world.trigger("d")
        await world.run_until_idle()
        assert {*world.states("d", run).values()} == {"success"}
