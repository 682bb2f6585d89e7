"""Checks of assets in a world: what a script says of them, and which consumers begin."""

from __future__ import annotations

from typing import Any

import pytest

from aiosched import DAG, Asset, CheckResult, Metadata, PythonOperator, asset_check
from aiosched.core.values.states import RunState
from aiosched.testing import World, dies, fails, succeeds
from tests.testing.world_builders import NEW_YEAR, minutes

ORDERS = Asset("orders", uri="s3://shop/orders")


def world(*, blocking: bool = True, is_async: bool = False, **options: Any) -> World:
    with DAG("shop", schedule=None) as shop:
        load = PythonOperator(task_id="load", python_callable=len, outlets=[] if blocking else [ORDERS])

        def says(rows: int = 0) -> bool:
            raise AssertionError("the code of authors does not run in a world")

        async def says_too(rows: int = 0) -> bool:
            return says()

        decorate: Any = asset_check(ORDERS, blocking=blocking, task_id="check", **options)
        load >> decorate(says_too if is_async else says)()
    with DAG("report", schedule=ORDERS) as report:
        PythonOperator(task_id="write", python_callable=len)
    made = World(now=NEW_YEAR, takes=minutes(1))
    made.add(shop, report)
    return made


def said(it: World) -> list[tuple[str, int, str, str]]:
    return [(one.run_id, one.try_number, one.status, one.message) for one in it.checks_of("orders")]


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_check_passes_if_no_script_says_otherwise(is_async: bool) -> None:
    async with world(is_async=is_async) as it:
        run = it.trigger("shop")
        await it.run_until_idle()

        assert said(it) == [(run, 1, "pass", "")]
        assert it.xcom("shop", run, "check") == '"pass"'
        assert [one.state for one in it.runs("report")] == [RunState.SUCCESS]


@pytest.mark.parametrize("is_async", [False, True])
async def test_consumers_of_a_blocking_check_that_fails_wait_until_it_passes(is_async: bool) -> None:
    async with world(is_async=is_async) as it:
        it.script("shop", "check", returns=CheckResult("fail", "3 gaps", {"gaps": 3}))
        run = it.trigger("shop")
        await it.run_until_idle()

        assert it.task("shop", run, "check").reason == "AssetCheckFailed: 3 gaps"
        assert it.runs("report") == []

        it.script("shop", "check", returns=CheckResult("warn", "1 gap"), events=[Metadata(ORDERS, {"rows": 12})])
        it.clear("shop", [run], task_ids=["check"])
        await it.run_until_idle()

        assert said(it) == [(run, 1, "fail", "3 gaps"), (run, 2, "warn", "1 gap")]
        assert it.checks_of("orders")[0].metadata == {"gaps": 3}
        (report,) = it.runs("report")
        assert [event.extra for event in it.events_of("report", report.run_id)] == ['{"rows":12}']


async def test_a_check_that_does_not_block_fails_alone() -> None:
    async with world(blocking=False) as it:
        it.script("shop", "check", returns=False)
        run = it.trigger("shop")
        await it.run_until_idle()

        assert it.states("shop", run) == {"load": "success", "check": "failed"}
        assert [one.state for one in it.runs("report")] == [RunState.SUCCESS]


async def test_tries_say_something_each_and_those_that_end_without_a_result_nothing() -> None:
    async with world(retries=3, retry_delay=60) as it:
        endings = iter([dies(), succeeds(CheckResult("fail", "late")), fails(), succeeds(True)])
        it.script("shop", "check", lambda attempt: next(endings))
        run = it.trigger("shop")
        await it.run_until_idle()

        assert [(number, status) for _, number, status, _ in said(it)] == [(2, "fail"), (4, "pass")]
        assert len(it.runs("report")) == 1
        assert it.run("shop", run).state is RunState.SUCCESS


async def test_what_is_no_result_fails_the_attempt() -> None:
    async with world() as it:
        it.script("shop", "check", returns="fine")
        run = it.trigger("shop")
        await it.run_until_idle()

        assert "return True, False or CheckResult" in it.task("shop", run, "check").reason
        assert (said(it), it.runs("report")) == ([], [])


async def test_each_instance_of_a_mapped_check_says_something() -> None:
    with DAG("shop", schedule=None) as shop:

        @asset_check(ORDERS)
        def check(country: str) -> bool:
            return True

        check.expand(country=["nl", "be", "lu"])
    async with World(now=NEW_YEAR, takes=minutes(1)) as it:
        it.add(shop)
        it.script("shop", "check", returns=CheckResult("warn", "m"))
        it.trigger("shop")
        await it.run_until_idle()

        assert sorted((one.map_index, one.status) for one in it.checks_of("orders")) == [
            (0, "warn"), (1, "warn"), (2, "warn"),
        ]  # fmt: skip


async def test_two_checks_of_one_asset_are_both_met_by_the_second_that_waits_for_the_first() -> None:
    with DAG("shop", schedule=None) as shop:

        def says() -> bool:
            return True

        first = asset_check(ORDERS, task_id="first")(says)
        second = asset_check(ORDERS, blocking=True, task_id="second")(says)
        first() >> second()
    with DAG("report", schedule=ORDERS) as report:
        PythonOperator(task_id="write", python_callable=len)
    async with World(now=NEW_YEAR, takes=minutes(1)) as it:
        it.add(shop, report)
        it.script("shop", "first", returns=False)
        run = it.trigger("shop")
        await it.run_until_idle()
        assert it.states("shop", run) == {"first": "failed", "second": "upstream_failed"}
        assert it.runs("report") == []

        it.script("shop", "first", returns=True)
        it.clear("shop", [run])
        await it.run_until_idle()
        assert len(it.runs("report")) == 1


async def test_dag_test_logs_what_a_check_says(caplog: pytest.LogCaptureFixture) -> None:
    with DAG("shop", schedule=None) as shop:

        @asset_check(ORDERS, blocking=True)
        def plain() -> CheckResult:
            return CheckResult("warn", "1 gap", {"gaps": 1})

        @asset_check(Asset("other"))
        async def coroutine() -> bool:
            return False

        plain()
        coroutine()
    with caplog.at_level("INFO"):
        run = await shop.test()

    assert {one.task_id: (one.state, one.reason) for one in run.tasks} == {
        "plain": ("success", None),
        "coroutine": ("failed", "AssetCheckFailed: the check says fail of Asset('other')"),
    }
    assert 'the check plain says warn: 1 gap {"gaps":1}' in caplog.text
