"""A scheduler with more than one executor: the semantics reference, section 19.6."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Mapping
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from aiosched.clock import FakeClock, SystemClock
from aiosched.config import Settings, load_settings
from aiosched.core.values.states import RunState
from aiosched.errors import ConfigError
from aiosched.executors.executor_router import ExecutorRouter, members_of
from aiosched.scheduler import executor_choice
from aiosched.scheduler.executor_choice import choose_executor
from aiosched.scheduler.service import Scheduler
from tests.patience import PATIENCE
from tests.scheduler.harness import Running, ScriptedExecutor, dag, running, task

pytestmark = pytest.mark.usefixtures("kept_supervisors")


def plugin(settings: Settings) -> ScriptedExecutor:
    """What an entry point leads to."""
    executor = ScriptedExecutor(SystemClock())
    executor.name = f"plugin {settings.core.parallelism}"
    return executor


def broken_plugin(settings: Settings) -> ScriptedExecutor:
    raise OSError("no cluster")


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    found = EntryPoints(
        EntryPoint(name, f"{__name__}:{function}", "aiosched.executors")
        for name, function in (("moon", "plugin"), ("sun", "broken_plugin"))
    )
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: found)
    monkeypatch.setattr(executor_choice, "entry_points", lambda group: found)


async def reasons(it: Running) -> dict[str, str]:
    return {row["task_id"]: row["reason"] for row in await it.instances("r") if row["state"] == "scheduled"}


# -- running ----------------------------------------------------------------------------------


async def test_each_task_runs_where_it_says_and_else_in_the_first(dsn: str, clock: FakeClock) -> None:
    gpu = ScriptedExecutor(clock)
    spec = dag("d", task("a"), task("b", executor="gpu"), task("c", executor="scripted"), task("e", executor="gpu"))
    async with running(dsn, clock, spec, others={"gpu": gpu}) as it:
        await it.trigger("d", "r")

        assert (sorted(it.executor.order()), sorted(gpu.order())) == (["a", "c"], ["b", "e"])
        assert it.scheduler.executor.name == "scripted,gpu"
        (row,) = await it.fetch("SELECT executor, slots FROM scheduler")
        assert tuple(row) == ("scripted,gpu", 20_000)

        for attempt in list(gpu.running.values()):
            gpu.succeed(attempt)
        await it.finish("a", "c")
        assert await it.runs("d") == {"r": "success"}
        await it.assert_consistent()
    assert gpu.stopped
    assert it.executor.stopped


async def test_each_has_open_slots_of_its_own_and_the_reason_names_the_full_one(dsn: str, clock: FakeClock) -> None:
    gpu = ScriptedExecutor(clock, slots=1)
    spec = dag("d", *(task(f"g{n}", executor="gpu", priority_weight=9) for n in range(3)), task("a"), task("b"))
    async with running(dsn, clock, spec, others={"gpu": gpu}) as it:
        await it.trigger("d", "r")

        assert gpu.order() == ["g0"]
        assert sorted(it.executor.order()) == ["a", "b"]  # behind those that wait, which do not hold them up
        full = "executor 'gpu': 0 slots open for plain functions, needs 1"
        assert await reasons(it) == {"g1": full, "g2": full}


async def test_parallelism_counts_over_all_executors(dsn: str, clock: FakeClock) -> None:
    gpu = ScriptedExecutor(clock)
    spec = dag("d", *(task(f"t{n}", executor="gpu" if n % 2 else None) for n in range(6)))
    async with running(dsn, clock, spec, others={"gpu": gpu}, parallelism=3) as it:
        await it.trigger("d", "r")

        assert len(gpu.running) + len(it.executor.running) == 3
        assert set((await reasons(it)).values()) == {"parallelism: this scheduler runs 3 attempts, its maximum"}


async def test_an_executor_that_does_not_exist_is_waited_for_and_those_that_do_are_named(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, dag("d", task("a", executor="moon")), others={"gpu": ScriptedExecutor(clock)}) as it:
        await it.trigger("d", "r")

        assert await reasons(it) == {
            "a": "executor 'moon' is not configured: known here is gpu, scripted. "
            "Add it to executor.kind, or change the task's executor"
        }


async def test_a_cancelled_attempt_is_stopped_where_it_runs(dsn: str, clock: FakeClock) -> None:
    gpu = ScriptedExecutor(clock)
    async with running(dsn, clock, dag("d", task("a", executor="gpu")), others={"gpu": gpu}) as it:
        await it.trigger("d", "r")
        assert gpu.running

        await it.ask("cancel_run", "d", run_id="r")

        await it.until(lambda: not gpu.running, "the attempt to be stopped")
        assert await it.runs("d") == {"r": "failed"}


async def test_a_trigger_waits_in_the_executor_of_its_task(dsn: str, clock: FakeClock) -> None:
    gpu = ScriptedExecutor(clock)
    async with running(dsn, clock, dag("d", task("a", executor="gpu")), others={"gpu": gpu}) as it:
        await it.trigger("d", "r")
        (attempt,) = gpu.running.values()
        gpu.defer(attempt)
        await it.until(lambda: gpu.triggers, "the trigger")

        gpu.fire(*gpu.triggers.values())
        await it.until(lambda: gpu.running, "the task to go on")

        assert not it.executor.without_slot
        assert not it.executor.submitted


async def test_local_and_inline_side_by_side_from_files(dsn: str, tmp_path: Path) -> None:
    (tmp_path / "d.py").write_text(
        """
import os
from aiosched import dag, task

@dag(schedule=None, default_args={"executor": "inline"}, is_paused_upon_creation=False)
def where():
    @task
    def here():
        return os.getpid()

    @task(executor="local")
    def there():
        return os.getpid()

    @task(executor="local")
    async def there_too():
        return os.getpid()

    here()
    there()
    there_too()

where()
"""
    )
    settings = Settings()
    settings.core.home = tmp_path / "home"
    async with Scheduler(dsn=dsn, dags_folder=tmp_path, executor="local,inline", settings=settings) as scheduler:
        await scheduler.wait_idle()
        run = await scheduler.trigger("where")
        assert await run.wait(timeout=PATIENCE) is RunState.SUCCESS
        pids = [int(row[0]) for row in await scheduler.db.fetch("SELECT value FROM xcom ORDER BY task_index")]

    assert pids[0] == os.getpid()
    assert os.getpid() not in pids[1:]


# -- choosing ---------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", ["local, inline", ["local", "inline"], {"local": "local", "inline": "inline"}])
def test_several_executors_can_be_asked_for_in_several_ways(choice: Any) -> None:
    executor = choose_executor(choice, Settings(), {})

    assert isinstance(executor, ExecutorRouter)
    assert list(executor.members) == ["local", "inline"]
    assert executor.slots == 2 * executor.members["local"].slots


def test_one_executor_is_itself() -> None:
    own = ScriptedExecutor(SystemClock())

    assert choose_executor(own, Settings(), {}) is own
    assert choose_executor([own], Settings(), {}) is own
    assert members_of(own) == {"scripted": own}
    assert members_of(choose_executor({"mine": own}, Settings(), {})) == {"mine": own}


def test_two_of_one_name_need_a_mapping() -> None:
    one, other = ScriptedExecutor(SystemClock()), ScriptedExecutor(SystemClock())

    assert list(members_of(choose_executor({"a": one, "b": other}, Settings(), {}))) == ["a", "b"]
    with pytest.raises(ConfigError, match="Two executors are called 'scripted': give them different names"):
        choose_executor([one, other], Settings(), {})


@pytest.mark.parametrize("choice", [[], {}])
def test_none_at_all_is_refused(choice: Any) -> None:
    with pytest.raises(ConfigError, match="needs an executor"):
        choose_executor(choice, Settings(), {})


def test_a_package_adds_a_kind_by_an_entry_point(plugins: None) -> None:
    settings = load_settings({"executor.kind": "inline,moon", "core.parallelism": 7}).settings

    members: Mapping[str, Any] = members_of(choose_executor(settings.executor.kind, settings, {}))

    assert list(members) == ["inline", "plugin 7"]


def test_a_package_that_cannot_make_its_executor_is_named(plugins: None) -> None:
    with pytest.raises(ConfigError, match=r"The executor 'sun' \(.*:broken_plugin\) cannot be made: OSError: no cl"):
        choose_executor("sun", Settings(), {})


def test_an_unknown_kind_is_refused_with_those_that_there_are(plugins: None) -> None:
    with pytest.raises(ConfigError, match=r"There is no executor 'mars': use 'local' .*, 'inline' .*, 'moon', 'sun'"):
        choose_executor("mars", Settings(), {})
    with pytest.raises(ConfigError, match=r"'mars' is not an executor .* these are local, inline, moon, sun"):
        load_settings({"executor.kind": "local,mars"})


@pytest.mark.parametrize("kinds", ["", "local,", "local,local"])
def test_a_list_of_kinds_with_gaps_or_repetitions_is_refused(kinds: str) -> None:
    with pytest.raises(ConfigError, match="must be an executor, or several different ones separated by commas"):
        load_settings({"executor.kind": kinds})


def test_a_settings_file_may_list_them(tmp_path: Path) -> None:
    (tmp_path / "aiosched.toml").write_text("[executor]\nkind = ['inline', 'local']\n")

    assert load_settings(folder=tmp_path, environ={}).settings.executor.kind == "inline,local"
