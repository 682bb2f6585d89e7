"""Text that PostgreSQL or UTF-8 cannot hold, wherever users may bring it: nothing stops the scheduler."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from aiosched import DAG, Asset, AssetAlias, task
from aiosched.clock import FakeClock
from aiosched.core.values.messages import AssetTouch, Deferral, Outcome, XComValue
from aiosched.errors import FailTask, Refused, SkipTask
from aiosched.executors.dag_test import run_dag_test
from tests.scheduler.harness import Running, dag, running
from tests.scheduler.harness import task as task_of

NUL, HALF = "a\x00b", "a\ud800b"  # half of a surrogate pair


async def other_dags_go_on(it: Running) -> None:
    await it.trigger("other", "r_other")
    assert await it.runs("other") == {"r_other": "running"}


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("text", [NUL, HALF])
@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(lambda text: {"xcoms": (XComValue("return_value", json.dumps(text)),)}, id="value"),
        pytest.param(lambda text: {"assets": (AssetTouch(name="s", uri="s", extra=json.dumps([text])),)}, id="extra"),
        pytest.param(
            lambda text: {
                "outcome": Outcome.DEFERRED,
                "deferral": Deferral(classpath="a.B", kwargs=json.dumps({"x": text}), next_method="m"),
            },
            id="deferral",
        ),
    ],
)
async def test_json_may_hold_any_text(
    dsn: str, clock: FakeClock, text: str, facts: Callable[[str], dict[str, Any]]
) -> None:
    async with running(dsn, clock, dag("d", task_of("a")), dag("other", task_of("a"))) as it:
        await it.ask("trigger", "d", run_id="r", conf={"x": "any"})

        it.executor.report(await it.attempt("a"), **{"outcome": Outcome.SUCCESS} | facts(text))
        await other_dags_go_on(it)

        assert await it.states("r") in ({"a": "success"}, {"a": "deferred"})


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("text", [NUL, HALF])
@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.LOST, Outcome.SUCCESS])
async def test_what_an_executor_of_another_package_reports_is_cleaned(
    dsn: str, clock: FakeClock, text: str, outcome: Outcome
) -> None:
    async with running(dsn, clock, dag("d", task_of("a", retries=1)), dag("other", task_of("a"))) as it:
        await it.trigger("d", "r")
        pushed = (XComValue(text, json.dumps("é") if outcome is Outcome.SUCCESS else f'"{text}"'),)
        facts = {"reason": text, "details": text, "hostname": text, "map_label": text, "xcoms": pushed}

        it.executor.report(await it.attempt("a"), outcome, **facts)
        await other_dags_go_on(it)

        tries = await it.fetch("SELECT reason, details, hostname FROM task_try")
        stored = "a\\x00b" if text == NUL else "a\\ud800b"
        assert [set(row) for row in tries] == [{stored}] * len(tries)
        assert len(tries) == (0 if outcome is Outcome.SUCCESS else 1)


async def test_a_value_that_is_not_json_fails_its_attempt(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task_of("a")), dag("other", task_of("a"))) as it:
        await it.trigger("d", "r")

        it.executor.report(await it.attempt("a"), Outcome.SUCCESS, xcoms=(XComValue("return_value", "{'a': 1}"),))
        await other_dags_go_on(it)

        row = await it.instance("a", "r")
        assert row["state"] == "failed"
        assert row["reason"].startswith("its executor reported a value for 'return_value' that is not JSON")


async def test_a_request_that_is_not_unicode_is_refused(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task_of("a"))) as it:
        with pytest.raises(Refused, match="'trigger' has text with characters that are not Unicode"):
            await it.ask("trigger", "d", run_id="r", conf={"x": HALF})


def adds_an_asset(text: str, context: Any) -> None:
    context["outlet_events"][AssetAlias("alias")].add(Asset(text))


def pushes_a_key(text: str, context: Any) -> None:
    context["ti"].xcom_push(text, 1)


def fails(text: str, context: Any) -> None:
    raise FailTask(text)


def skips(text: str, context: Any) -> None:
    raise SkipTask(text)


@pytest.mark.parametrize("text", [NUL, HALF])
@pytest.mark.parametrize(
    ("does", "state", "reason"),
    [
        (adds_an_asset, "failed", "is wrong: give printable text"),
        (pushes_a_key, "failed", "XCom key"),
        (fails, "failed", "b"),
        (skips, "skipped", "b"),
    ],
)
async def test_what_a_task_says_can_be_stored_or_fails_it(
    text: str, does: Callable[[str, Any], None], state: str, reason: str
) -> None:
    with DAG("d", schedule=None) as dag:

        @task(outlets=[AssetAlias("alias")])
        def t(**context: Any) -> None:
            does(text, context)

        t()

    told = (await run_dag_test(dag)).task("t")

    assert told.state == state
    assert reason in str(told.reason)
    assert not {"\x00", "\ud800"} & set(str(told.reason))
