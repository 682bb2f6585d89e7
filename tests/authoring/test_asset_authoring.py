"""Assets as authors write them, and `@asset`."""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from aiosched import DAG, Asset, AssetAlias, AssetAll, AssetAny, EmptyOperator, asset
from aiosched.authoring.runtime.xcom_values import read_data
from aiosched.core.assets.conditions import AliasRequired, AllRequired, AnyRequired, AssetRequired, ReferenceRequired
from aiosched.core.graph.spec import AssetRef, asset_references
from aiosched.core.timetables import AssetTriggeredTimetable, condition_of
from aiosched.errors import DagError, TimetableError


@dataclasses.dataclass
class Own:
    x: int


a, b, c = Asset("a"), Asset("b"), Asset("c")
A, B, C = AssetRequired("a"), AssetRequired("b"), AssetRequired("c")


def test_name_and_uri_stand_in_for_each_other() -> None:
    assert [(x.name, x.uri) for x in (Asset("n"), Asset(uri="s3://u"), Asset("n", "s3://u"))] == [
        ("n", "n"), ("s3://u", "s3://u"), ("n", "s3://u"),
    ]  # fmt: skip


def test_assets_with_one_name_are_equal() -> None:
    assert Asset("n") == Asset("n", uri="s3://u")
    assert len({Asset("n"), Asset("n", uri="s3://u"), AssetAlias("n"), Asset.ref(name="n")}) == 3


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (a & b, AllRequired((A, B))),
        (a & b & c, AllRequired((A, B, C))),
        (a | b | c, AnyRequired((A, B, C))),
        ((a & b) | c, AnyRequired((AllRequired((A, B)), C))),
        (AssetAll(a, AssetAny(b, c)), AllRequired((A, AnyRequired((B, C))))),
        (a | AssetAlias("x"), AnyRequired((A, AliasRequired("x")))),
        (
            Asset.ref(name="a") & Asset.ref(uri="s3://b"),
            AllRequired((ReferenceRequired("a"), ReferenceRequired("", "s3://b"))),
        ),
    ],
    ids=repr,
)
def test_conditions_are_written_with_operators(condition: Any, expected: object) -> None:
    assert condition.to_expression() == expected


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 1501, 5, None])
def test_a_name_that_cannot_be_is_refused(name: Any) -> None:
    with pytest.raises(DagError, match="printable text"):
        Asset(name)
    with pytest.raises(DagError, match="printable text"):
        AssetAlias(name)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: AssetAll(), "names no assets"),
        (lambda: AssetAny(a, "b"), r"Write Asset\('b'\)"),  # type: ignore[arg-type]
        (lambda: Asset.ref(), "exactly one"),
        (lambda: Asset.ref(name="a", uri="b"), "exactly one"),
        (lambda: Asset("a", extra={"x": [object()]}), r"cannot be stored: \['x'\]\[0\] is an object, which"),
        (lambda: Asset("a", extra={1: 2}), "has the key 1, which is no text"),  # type: ignore[dict-item]
        (lambda: Asset("a", extra={"x": Own(1)}), "values of classes of your own"),
    ],
)
def test_what_is_wrong_names_the_remedy(wrong: Any, told: str) -> None:
    with pytest.raises(DagError, match=told):
        wrong()


def test_the_extra_of_an_asset_keeps_its_types() -> None:
    extra = {
        "at": datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/Amsterdam")),
        "pair": (1, Decimal("1.50")),
        "numbers": {1: {2}},
        "$aiosched": "text",
        "like": {"$aiosched": "tuple", "value": [1]},
    }
    asset = Asset("typed", extra=extra)

    stored = json.loads(json.dumps(asset.shown_extra))

    assert repr(asset.extra) == repr(extra)
    assert repr({name: read_data(value) for name, value in stored.items()}) == repr(extra)
    assert stored["$aiosched"] == "text"


def test_a_dag_may_be_scheduled_on_assets() -> None:
    dag = DAG("d", schedule=[a, b | c])

    timetable = dag.to_spec().timetable
    assert isinstance(timetable, AssetTriggeredTimetable)
    assert timetable.condition == AllRequired((A, AnyRequired((B, C))))


def test_a_list_of_names_is_refused_with_the_line() -> None:
    with pytest.raises(TimetableError, match=r"write Asset\('orders'\).*test_asset_authoring\.py"):
        DAG("d", schedule=["orders"])


def test_inlets_and_outlets_are_in_the_spec_and_each_once() -> None:
    with DAG("d") as dag:
        EmptyOperator(
            task_id="t",
            inlets=[Asset.ref(uri="s3://x"), "plain"],
            outlets=[a, Asset("a"), Asset("m", uri="s3://m", extra={"k": 1}), AssetAlias("late")],
        )

    (task,) = dag.to_spec().tasks
    assert task.inlets == (AssetRef(name="s3://x", kind="uri"), AssetRef(name="plain"))
    assert task.outlets == (
        AssetRef(name="a"), AssetRef(name="m", uri="s3://m", extra={"k": 1}), AssetRef(name="late", is_alias=True),
    )  # fmt: skip
    assert not task.is_empty


def test_what_is_no_asset_cannot_be_an_outlet() -> None:
    with DAG("d") as dag:
        EmptyOperator(task_id="t", outlets=[5])

    with pytest.raises(DagError, match="5 among its outlets is not an asset"):
        dag.to_spec()


def test_an_asset_function_is_a_dag_with_one_task_that_makes_the_asset() -> None:
    @asset(schedule="@daily", uri="s3://orders", extra={"team": "x"}, tags=["t"])
    def orders(self: Asset) -> str:
        """Makes orders."""
        return self.uri

    assert orders == Asset("orders", uri="s3://orders")
    assert orders.dag is not None
    spec = orders.dag.to_spec()
    assert (spec.dag_id, spec.doc_md, spec.tags, spec.timetable.summary) == (
        "orders",
        "Makes orders.",
        ("t",),
        "@daily",
    )
    (task,) = spec.tasks
    assert task.outlets == (AssetRef(name="orders", uri="s3://orders", extra={"team": "x"}),)


def test_an_asset_function_waits_for_and_reads_others() -> None:
    @asset(schedule=None)
    def orders() -> None: ...

    @asset(schedule=orders, outlets=[AssetAlias("late")])
    async def report(self: Asset, context: Any, orders: Asset, inlet_events: Any) -> None: ...

    assert report.dag is not None
    spec = report.dag.to_spec()
    assert condition_of(spec.timetable) == AssetRequired("orders")
    (task,) = spec.tasks
    assert task.inlets == (AssetRef(name="orders", kind="name"),)
    assert [ref.name for ref in task.outlets] == ["report", "late"]
    assert task.is_async


async def test_an_asset_function_gets_itself_the_context_and_its_inlets() -> None:
    @asset(schedule=None)
    def made(self: Asset, context: Any, orders: Asset, run_id: str) -> list[Any]:
        return [self.name, context["run_id"] == run_id, orders.name]

    assert made.dag is not None
    result = await made.dag.test()
    assert result.xcoms["made"]["return_value"] == ["made", True, "orders"]


def test_an_asset_function_needs_its_brackets() -> None:
    with pytest.raises(DagError, match="with parentheses"):
        asset(lambda: None)  # type: ignore[arg-type]


def test_the_group_of_an_asset_is_in_what_is_stored_if_it_has_one() -> None:
    grouped = Asset("a", group="sales")
    with DAG("d", schedule=grouped) as dag:
        EmptyOperator(task_id="t", outlets=[grouped, Asset("b")])

    mentions = asset_references(dag.to_spec())

    assert {(one.role, one.name, one.group) for one in mentions} == {
        ("schedule", "a", "sales"), ("outlet", "a", "sales"), ("outlet", "b", "asset")
    }  # fmt: skip
    with pytest.raises(DagError, match=r"Asset\(group=''\) is wrong"):
        Asset("a", group="")
