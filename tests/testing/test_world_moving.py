"""Clearing with a move to the newest DAG version, in a world. See tests/scheduler/test_moving_runs.py."""

from __future__ import annotations

import pytest

from aiosched.errors import Refused
from aiosched.testing import World
from tests.testing.world_builders import NEW_YEAR, dag, minutes, task


async def test_only_runs_with_something_to_clear_move_to_the_newest_version() -> None:
    async with World(now=NEW_YEAR) as it:
        it.add(dag("d", task("a"), task("b", after="a")))
        good = it.trigger("d")
        await it.run_until_idle()
        it.script("d", "b", fails=True)
        bad = it.trigger("d")
        await it.run_until_idle()
        it.script("d", "b")
        it.script("d", "a", takes=minutes(5))
        at_work = it.trigger("d")
        await it.run_until(it.now + minutes(1))
        it.add(dag("d", task("a"), task("c", after="a")))

        preview = it.clear("d", only_failed=True, newest_version=True, dry_run=True)
        touched = it.clear("d", only_failed=True, newest_version=True)

        assert touched == preview
        assert [(one["run_id"], one["task_id"]) for one in touched] == [(bad, "b")]
        for dry_run in (True, False):
            with pytest.raises(Refused, match="cannot be moved"):
                it.clear("d", [at_work], newest_version=True, dry_run=dry_run)
        await it.run_until_idle()
        assert it.states("d", bad) == {"a": "success", "c": "success"}
        assert it.states("d", good) == it.states("d", at_work) == {"a": "success", "b": "success"}
