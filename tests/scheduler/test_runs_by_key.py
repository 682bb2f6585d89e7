"""Runs by key: one job of a tenant at a time, whatever happens to schedulers, runs and the DAG."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from aiosched import DAG, EmptyOperator, Param
from aiosched.clock import FakeClock
from aiosched.core.graph.spec import RunKeySpec
from aiosched.errors import DagError
from tests.scheduler.harness import Running, chain, running

BY_TENANT = RunKeySpec(("tenant",))
RUNNING = """
    SELECT conf ->> 'tenant', count(*) FROM dag_run WHERE state = 'running' AND conf ->> 'tenant' IS NOT NULL GROUP BY 1
"""


async def test_one_run_of_a_tenant_at_a_time_and_why(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain("d", 1, run_key=BY_TENANT)) as it:
        for number, tenant in enumerate("aab", 1):
            await it.trigger("d", f"r{number}", conf={"tenant": tenant})
        await it.trigger("d", "free")
        await it.settled()

        assert await it.runs("d") == {"r1": "running", "r2": "queued", "r3": "running", "free": "running"}
        (gate,) = [gate for gate in (await it.scheduler.why("d", run="r2")).gates if gate.closed]
        assert (gate.name, gate.detail) == (
            "max_active_runs_per_key",
            'max_active_runs_per_key=1 reached: 1 running with tenant="a"',
        )
        assert [holder.run_id for holder in gate.holders] == ["r1"]

        await it.finish("t0", run_id="r1")
        await it.settled()
        assert (await it.runs("d"))["r2"] == "running"
        await it.assert_consistent()


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("seed", range(3))
async def test_no_key_has_more_whoever_owns_the_dag_and_whatever_people_do(
    dsn: str, clock: FakeClock, seed: int
) -> None:
    chance, most = random.Random(seed), 2
    spec = chain("d", 1, run_key=RunKeySpec(("tenant",), most), max_active_runs=4)
    seen, numbers = Counter[str](), iter(range(1_000))

    async def look(it: Running) -> None:
        for tenant, count in await it.fetch(RUNNING):
            assert count <= most, tenant
            seen[tenant] = max(seen[tenant], count)

    async with running(dsn, clock, spec) as it:
        for _ in range(40):
            match chance.choice(["trigger", "trigger", "trigger", "finish", "finish", "clear", "leave", "advance"]):
                case "trigger":
                    await it.trigger("d", f"r{next(numbers)}", conf={"tenant": chance.choice("abc")})
                case "finish" if it.executor.running:
                    attempt = chance.choice([*it.executor.running.values()])
                    await it.finish("t0", run_id=attempt.run.run_id)
                case "clear" if ended := [run for run, state in (await it.runs("d")).items() if state == "success"]:
                    await it.scheduler.clear("d", [chance.choice(ended)])
                case "leave" if chance.random() < 0.3:
                    await it.leave_and_come_back()
                case _:
                    await it.advance(1)
            await it.settled()
            await look(it)
        while it.executor.running:
            await it.finish_all()
            await it.settled()
            await look(it)

        assert set((await it.runs("d")).values()) == {"success"}
        assert max(seen.values()) == most
        await it.assert_consistent()


async def test_a_dag_that_no_longer_has_a_key_lets_all_go(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain("d", 1, run_key=BY_TENANT)) as it:
        for number in range(4):
            await it.trigger("d", f"r{number}", conf={"tenant": "a"})
        assert Counter((await it.runs("d")).values()) == {"running": 1, "queued": 3}

        await it.register(chain("d", 1))
        await it.trigger("d", "more")

        assert Counter((await it.runs("d")).values()) == {"running": 5}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"concurrency_key": "tenant"}, "name a value of the run's conf"),
        ({"concurrency_key": "{{ params.tenant }}"}, "name a value of the run's conf"),
        ({"concurrency_key": "{{ conf.tenant | upper }}"}, "name a value of the run's conf"),
        ({"concurrency_key": "{{ conf.tenant }}-{{ conf.x }}"}, "name a value of the run's conf"),
        ({"concurrency_key": 5}, "name a value of the run's conf"),
        ({"concurrency_key": "{{ conf.a }}", "max_active_runs_per_key": 0}, "whole number of at least 1"),
        ({"max_active_runs_per_key": 2}, "needs a concurrency_key"),
    ],
)
def test_what_is_no_key_is_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(DagError, match=said):
        DAG("d", **options)  # type: ignore[arg-type]


def test_a_key_names_a_value_of_the_conf_at_any_depth() -> None:
    assert DAG("d", concurrency_key="{{conf.a.b_c}}").to_spec().run_key == RunKeySpec(("a", "b_c"))
    assert DAG("d", concurrency_key="{{ dag_run.conf.a }}", max_active_runs_per_key=3).to_spec().run_key == RunKeySpec(
        ("a",), 3
    )


@pytest.mark.parametrize("key", ["token", "login", "login.password"])
def test_a_secret_is_no_key(key: str) -> None:
    secret = {"type": "string", "format": "password"}
    params = {"token": Param("x", **secret), "login": Param({}, properties={"password": secret}), "tenant": 1}

    with pytest.raises(DagError, match=r"names the param '(token|login)', which holds a secret"):
        DAG("d", params=params, concurrency_key=f"{{{{ conf.{key} }}}}").to_spec()
    assert DAG("d", params=params, concurrency_key="{{ conf.tenant }}").to_spec().run_key == RunKeySpec(("tenant",))


@pytest.mark.parametrize("option", ["depends_on_past", "wait_for_downstream"])
def test_a_key_beside_tasks_that_wait_for_the_previous_run_is_refused(option: str) -> None:
    with DAG("d", concurrency_key="{{ conf.a }}") as dag:
        EmptyOperator(task_id="t", **{option: True})

    with pytest.raises(DagError, match="'t' waits for the previous run"):
        dag.to_spec()
