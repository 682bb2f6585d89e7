"""Assets in one attempt: what is asked before, what a task says and reads, what its report carries.

Source: the semantics reference, section 15.1.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from aiosched import DAG, Asset, AssetAlias, Metadata, PythonOperator
from aiosched.authoring.runtime.xcom_values import read_data
from aiosched.core.values.messages import AssetTouch, Attempt, Outcome, Report
from aiosched.errors import Refused
from aiosched.executors.attempt.blocking import blocking_on
from aiosched.executors.attempt.environment import AttemptEnvironment
from aiosched.executors.attempt.runner import Execution, drive
from aiosched.executors.inline.executor import RegisteredDags
from tests.executors.attempt_builders import FakeServices, attempt

ORDERS = Asset("orders", uri="s3://orders")
LATE = AssetAlias("late")
EVENT = {
    "name": "orders", "uri": "s3://orders", "timestamp": "2026-01-01T00:00:00Z", "extra": {"rows": 3}, "alias": None,
    "dag_id": "maker", "run_id": "r", "task_id": "make", "map_index": -1,
}  # fmt: skip


@dataclass
class AssetServices(FakeServices):
    """Answers like a scheduler that knows one event of `orders`."""

    inactive: tuple[str, ...] = ()
    asked: list[tuple[str, Any]] = field(default_factory=list)

    async def call(self, run: int, name: str, args: str) -> str:
        asked = json.loads(args)
        self.asked.append((name, asked))
        if name == "check_assets":
            if missing := set(self.inactive) & set(asked["names"]):
                raise Refused(f"No DAG mentions the asset {sorted(missing)}.")
            return json.dumps(dict.fromkeys(asked["uris"], "named"))
        return json.dumps([EVENT])


def dag_of(function: Callable[..., Any], **options: Any) -> DAG:
    with DAG("d", schedule=None) as dag:
        PythonOperator(task_id="t", python_callable=function, **options)
    return dag


def run(function: Callable[..., Any], *, services: Any = None, one: Attempt | None = None, **options: Any) -> Report:
    blocking = drive
    execution = Execution(one or attempt("t"), services or AssetServices(), AttemptEnvironment(), blocking=blocking)
    return drive(execution.run(RegisteredDags({"d": dag_of(function, **options)})))


async def run_async(function: Callable[..., Any], one: Attempt, *, services: Any, **options: Any) -> Report:
    blocking = blocking_on(asyncio.get_running_loop())
    execution = Execution(one, services, AttemptEnvironment(), blocking=blocking)
    return await execution.run(RegisteredDags({"d": dag_of(function, **options)}))


def in_asset_run(*, is_async: bool = False) -> Attempt:
    one = attempt("t", is_async=is_async)
    return msgspec.structs.replace(one, run=msgspec.structs.replace(one.run, run_type="asset_triggered"))


def touched(report: Report) -> list[tuple[str, Any]]:
    assert report.outcome is Outcome.SUCCESS, report.details
    return [(touch.name, json.loads(touch.extra)) for touch in report.assets]


def test_a_success_touches_each_outlet_once() -> None:
    report = run(lambda: None, outlets=[ORDERS, "plain", ORDERS])

    assert report.assets == (AssetTouch(name="orders", uri="s3://orders"), AssetTouch(name="plain", uri="plain"))


def test_a_task_without_outlets_touches_nothing_and_asks_nothing() -> None:
    services = AssetServices()

    assert run(lambda: 1, services=services).assets == ()
    assert services.asked == []


def test_a_failure_touches_nothing() -> None:
    def fail() -> None:
        raise ValueError

    report = run(fail, outlets=[ORDERS])

    assert (report.outcome, report.assets) == (Outcome.FAILED, ())


@pytest.mark.parametrize(
    "value", [datetime(2026, 1, 1, tzinfo=UTC), Decimal("1.50"), (1, {2}), {1: b"x"}, float("inf"), {"$aiosched": "x"}]
)
def test_an_extra_comes_back_with_its_type(value: Any) -> None:
    def make(outlet_events: Any) -> None:
        outlet_events[ORDERS].extra["at"] = value

    ((_, stored),) = touched(run(make, outlets=[ORDERS]))

    assert repr(read_data(stored)) == repr({"at": value})


def test_an_extra_of_a_class_of_the_author_is_refused_and_one_that_people_wrote_makes_no_object() -> None:
    report = run(lambda outlet_events: outlet_events[ORDERS].extra.update(a=LATE), outlets=[ORDERS])

    assert report.outcome is Outcome.FAILED
    assert "extra of asset orders['a'] is a" in (report.reason or "")
    written = {"a": {"$aiosched": "object", "class": "collections:Counter", "value": {}}, "b": {"$aiosched": "tuple"}}
    assert read_data(written) == written


def test_a_task_gives_its_event_an_extra() -> None:
    def make(outlet_events: Any) -> None:
        outlet_events[ORDERS].extra["rows"] = 3

    assert touched(run(make, outlets=[ORDERS])) == [("orders", {"rows": 3})]


def test_a_task_adds_several_events_of_one_asset() -> None:
    def make(outlet_events: Any) -> None:
        outlet_events["orders"].add(extra={"part": 1})
        outlet_events[ORDERS].add(ORDERS, extra={"part": 2})

    assert touched(run(make, outlets=[ORDERS])) == [("orders", {"part": 1}), ("orders", {"part": 2})]


def test_an_alias_touches_what_the_task_adds_and_else_nothing() -> None:
    def make(outlet_events: Any) -> None:
        outlet_events[LATE].add(Asset("x", uri="s3://x"), extra={"n": 1})

    assert run(lambda: None, outlets=[LATE]).assets == ()
    assert run(make, outlets=[LATE]).assets == (AssetTouch(name="x", uri="s3://x", extra='{"n":1}', alias="late"),)


def test_a_generator_function_yields_what_it_says_and_returns_its_value() -> None:
    def make() -> Any:
        yield Metadata(ORDERS, {"rows": 1})
        yield Metadata(Asset("x"), {"n": 2}, alias=LATE)
        return "done"

    report = run(make, outlets=[ORDERS, LATE])

    assert touched(report) == [("orders", {"rows": 1}), ("x", {"n": 2})]
    assert [value.value for value in report.xcoms] == ['"done"']


def test_a_link_by_uri_touches_the_asset_that_is_there() -> None:
    assert touched(run(lambda: None, outlets=[Asset.ref(uri="s3://y")])) == [("named", {})]
    assert touched(run(lambda: None, outlets=[Asset.ref(name="y")])) == [("y", {})]


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda outlet_events: outlet_events["x"], "'x' is not an outlet of this task; it has Asset('orders'"),
        (lambda outlet_events: outlet_events[ORDERS].add(Asset("x")), "only an alias leads to other assets"),
        (lambda outlet_events: outlet_events[LATE].add(), "give one, add(Asset('…'))"),
        (lambda outlet_events: outlet_events[ORDERS].extra.update(a=object()), "extra of asset orders"),
        (lambda inlet_events: inlet_events[ORDERS], "is not an inlet of this task; it has none"),
    ],
)
def test_what_cannot_be_said_about_assets_fails_the_task_with_a_remedy(function: Any, told: str) -> None:
    report = run(function, outlets=[ORDERS, LATE])

    assert report.outcome is Outcome.FAILED
    assert told in str(report.reason)


def test_a_generator_that_yields_something_else_fails() -> None:
    def make() -> Any:
        yield 1

    assert "only Metadata" in str(run(make, outlets=[ORDERS]).reason)


def test_an_inactive_asset_fails_the_task_before_it_executes() -> None:
    called: list[int] = []

    for role in ("inlets", "outlets"):
        named: dict[str, Any] = {role: [ORDERS]}
        report = run(lambda: called.append(1), services=AssetServices(inactive=("orders",)), **named)
        assert report.outcome is Outcome.FAILED
        assert report.reason == "Refused: No DAG mentions the asset ['orders']."
    assert called == []


def test_a_task_reads_the_events_of_its_inlets() -> None:
    seen: list[Any] = []
    services = AssetServices()

    report = run(lambda inlet_events: seen.extend(inlet_events[ORDERS]), services=services, inlets=[ORDERS])

    assert report.outcome is Outcome.SUCCESS, report.details
    (event,) = seen
    assert (event.asset, event.uri, event.extra) == (ORDERS, "s3://orders", {"rows": 3})
    assert (event.timestamp, event.source_task_id) == (datetime(2026, 1, 1, tzinfo=UTC), "make")
    assert services.asked[-1] == ("asset_events", {"asset": "orders", "limit": 1000})


def test_a_task_reads_the_events_that_made_its_run() -> None:
    def read(triggering_asset_events: Any) -> list[Any]:
        return [[asset.name, [e.extra for e in events]] for asset, events in triggering_asset_events.items()]

    report = run(read, one=in_asset_run())

    assert [value.value for value in report.xcoms] == ['[["orders",[{"rows":3}]]]']


def test_a_run_that_no_event_made_has_no_triggering_events_and_asks_for_none() -> None:
    services = AssetServices()

    report = run(lambda triggering_asset_events: len(triggering_asset_events), services=services)

    assert [value.value for value in report.xcoms] == ["0"]
    assert services.asked == []


async def test_a_coroutine_function_gets_its_triggering_events_loaded_and_loads_those_of_inlets() -> None:
    async def read(triggering_asset_events: Any, inlet_events: Any) -> list[int]:
        return [len(triggering_asset_events[ORDERS]), len(await inlet_events.load(ORDERS)), len(inlet_events[ORDERS])]

    report = await run_async(read, in_asset_run(is_async=True), services=AssetServices(), inlets=[ORDERS])

    assert [value.value for value in report.xcoms] == ["[1,1,1]"]


async def test_a_template_of_an_async_task_may_read_the_events_of_its_run() -> None:
    async def read(text: str) -> str:
        return text

    template = "{% for a, es in triggering_asset_events.items() %}{{ a.name }}={{ es[0].extra.rows }}{% endfor %}"
    report = await run_async(read, in_asset_run(is_async=True), services=AssetServices(), op_kwargs={"text": template})

    assert [value.value for value in report.xcoms] == ['"orders=3"'], report.details
