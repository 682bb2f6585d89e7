"""One-off jobs in a `World`: unique keys, debounced requests and expiry, as a scheduler has them."""

from __future__ import annotations

import pytest

from aiosched.errors import Refused
from aiosched.testing import World
from tests.testing.world_builders import NEW_YEAR, dag, minutes, task


async def test_a_unique_run_is_the_answer_until_it_has_ended() -> None:
    async with World(now=NEW_YEAR, takes=minutes(5)) as it:
        it.add(dag("d", task("a")))
        first = it.trigger("d", unique="k")

        assert it.trigger("d", unique="k", conf={"n": 2}) == first
        assert it.trigger("d", unique="l") != first
        await it.run_until_idle()
        assert it.trigger("d", unique="k") != first


async def test_a_debounced_one_moves_on_and_has_the_last_conf() -> None:
    async with World(now=NEW_YEAR, takes=minutes(5)) as it:
        it.add(dag("d", task("a")))
        first = it.trigger("d", unique="k", debounce=120, conf={"n": 1})
        await it.run_until(it.now + minutes(1))
        assert it.trigger("d", unique="k", debounce=120, conf={"n": 2}) == first
        await it.run_until(NEW_YEAR + minutes(2.5))
        assert it.run("d", first).state == "queued"
        await it.run_until(NEW_YEAR + minutes(3))

        assert (it.run("d", first).state, it.run("d", first).conf) == ("running", {"n": 2})
        assert it.trigger("d", unique="k", debounce=1) != first


async def test_a_run_that_does_not_start_in_time_fails() -> None:
    async with World(now=NEW_YEAR, takes=minutes(5)) as it:
        it.add(dag("d", task("a"), max_active_runs=1))
        first = it.trigger("d")
        late = it.trigger("d", expires=NEW_YEAR + minutes(2))
        last = it.trigger("d")
        await it.run_until_idle()

        assert [it.run("d", run).state for run in (first, late, last)] == ["success", "failed", "success"]
        assert (it.run("d", late).reason, it.run("d", late).end_date) == ("expired", NEW_YEAR + minutes(2))
        with pytest.raises(Refused, match="would expire"):
            it.trigger("d", expires=NEW_YEAR)
