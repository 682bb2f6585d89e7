"""Text that PostgreSQL cannot store, wherever users may bring it: nothing stops the scheduler."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.messages import AssetTouch, Attempt, Deferral, Outcome, Report, XComValue
from aiosched.errors import Refused
from tests.scheduler.harness import Running, dag, running, task

NUL, HALF = "a\x00b", "a\ud800b"  # half of a surrogate pair


async def other_dags_go_on(it: Running) -> None:
    await it.trigger("other", "r_other")
    assert await it.runs("other") == {"r_other": "running"}


@pytest.mark.parametrize("text", [NUL, HALF])
async def test_a_conf_that_cannot_be_stored_is_refused(dsn: str, clock: FakeClock, text: str) -> None:
    async with running(dsn, clock, dag("d", task("a")), dag("other", task("a"))) as it:
        with pytest.raises(Refused):
            await it.ask("trigger", "d", run_id="r", conf={"x": text})
        await other_dags_go_on(it)


@pytest.mark.parametrize("text", [NUL, HALF])
@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(lambda text: {"xcoms": (XComValue("return_value", json.dumps(text)),)}, id="value"),
        pytest.param(lambda text: {"xcoms": (XComValue(text, "1"),)}, id="key"),
        pytest.param(lambda text: {"map_label": text}, id="label"),
        pytest.param(lambda text: {"reason": text, "details": text, "outcome": Outcome.FAILED}, id="reason"),
        pytest.param(lambda text: {"assets": (AssetTouch(name=text, uri=text),)}, id="asset"),
        pytest.param(
            lambda text: {"assets": (AssetTouch(name="s", uri="s", extra=json.dumps({"a": text})),)}, id="extra"
        ),
        pytest.param(
            lambda text: {
                "outcome": Outcome.DEFERRED,
                "deferral": Deferral(classpath="a.B", kwargs=json.dumps({"x": text}), next_method="m"),
            },
            id="deferral",
        ),
    ],
)
async def test_a_report_that_cannot_be_stored_ends_its_attempt_and_nothing_else(
    dsn: str, clock: FakeClock, text: str, facts: Callable[[str], dict[str, Any]]
) -> None:
    async with running(dsn, clock, dag("d", task("a")), dag("other", task("a"))) as it:
        await it.trigger("d", "r")
        attempt: Attempt = await it.attempt("a")
        values = {"outcome": Outcome.SUCCESS} | facts(text)
        it.executor.report(attempt, **values)
        await other_dags_go_on(it)
