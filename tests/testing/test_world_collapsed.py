"""A mapped group in a world whose run is cleared, and would not be expanded in a new run."""

from __future__ import annotations

from typing import Any

import pytest

from aiosched import DAG, PythonOperator, task_group
from aiosched.testing import World
from tests.testing.world_builders import NEW_YEAR, minutes


def grouped() -> DAG:
    with DAG("d", schedule=None) as made:
        p, x = (PythonOperator(task_id=name, python_callable=print) for name in "px")

        @task_group
        def g(value: Any) -> None:
            m = PythonOperator(task_id="m", python_callable=print)
            n = PythonOperator(task_id="n", python_callable=print)
            m >> n
            x >> n
            n >> PythonOperator(task_id="k", python_callable=print, trigger_rule="all_done")

        g.expand(value=p.output) >> PythonOperator(task_id="c", python_callable=print)
    return made


@pytest.mark.parametrize("schedulers", [1, 2])
async def test_it_ends_as_a_new_run_and_is_whole_again_when_that_is_mended(schedulers: int) -> None:
    async with World(now=NEW_YEAR, takes=minutes(1), schedulers=schedulers) as it:
        it.add(grouped())
        it.script("d", "p", returns=[1, 2, 3])
        run = it.trigger("d")
        await it.run_until_idle()
        it.script("d", "x", fails=True)
        new = it.trigger("d", run_id="new")
        it.clear("d", [run])
        await it.run_until_idle()

        def shown(run_id: str) -> dict[Any, str]:
            return {place: state for place, state in it.states("d", run_id).items() if state != "removed"}

        assert shown(run) == shown(new)
        assert shown(run)["g.n"] == "upstream_failed"
        it.script("d", "x")
        it.script("d", "p", returns=[1, 2])
        it.clear("d", [run], only_failed=True)
        await it.run_until_idle()
        it.clear("d", [run, new])
        await it.run_until_idle()

        assert shown(run) == shown(new)
        assert set(shown(run).values()) == {"success"}
