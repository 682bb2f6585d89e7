"""`@asset_check` as authors write it: what it makes of a function, and what is refused at which line."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from inspect import currentframe
from typing import Any

import pytest

from aiosched import DAG, Asset, AssetAlias, CheckResult, EmptyOperator, PythonOperator, asset_check, task, task_group
from aiosched.authoring.assets.check_results import result_of
from aiosched.authoring.dag.serialize import to_spec
from aiosched.core.graph.spec import DagSpec, asset_references, decode_spec, encode_spec
from aiosched.core.values.asset_checks import LONGEST_MESSAGE, MOST_METADATA, read_report, worst
from aiosched.core.values.masking import secrets
from aiosched.errors import AioschedError, DagError, Refused

orders = Asset("orders", uri="s3://shop/orders")


def spec_of(build: Callable[[], Any]) -> DagSpec:
    with DAG("shop") as dag:
        build()
    return to_spec(dag, now=datetime(2026, 1, 1, tzinfo=UTC))


def mentions(spec: DagSpec) -> set[tuple[str, str, str, bool]]:
    return {(one.task_id, one.role, one.name, one.is_check) for one in asset_references(spec)}


def test_a_check_reads_its_asset_and_a_blocking_one_emits_it() -> None:
    def build() -> None:
        @asset_check(orders)
        def seen() -> bool:
            return True

        @asset_check(orders, blocking=True, retries=2, inlets=[Asset("rates")], outlets=[Asset("checked")])
        async def no_gaps() -> bool:
            return True

        seen()
        no_gaps()

    spec = spec_of(build)

    assert mentions(spec) == {
        ("seen", "inlet", "orders", True),
        ("no_gaps", "inlet", "orders", True),
        ("no_gaps", "inlet", "rates", False),
        ("no_gaps", "outlet", "orders", False),
        ("no_gaps", "outlet", "checked", False),
    }
    assert [(one.is_async, one.retries) for one in spec.tasks] == [(False, 0), (True, 2)]
    assert decode_spec(encode_spec(spec)) == spec


def test_a_mapped_check_says_what_it_checks() -> None:
    def build() -> None:
        @asset_check(orders)
        def no_gaps(country: str) -> bool:
            return True

        no_gaps.expand(country=["nl", "be"])

    assert mentions(spec_of(build)) == {("no_gaps", "inlet", "orders", True)}


@pytest.mark.parametrize("wrong", [AssetAlias("orders"), 5, None, len, [orders]], ids=repr)
def test_what_is_no_asset_is_refused(wrong: Any) -> None:
    with pytest.raises(DagError, match=r"write @asset_check\(Asset\('…'\)\) above"):
        asset_check(wrong)


def test_blocking_is_true_or_false() -> None:
    with pytest.raises(DagError, match=r"blocking='yes'\) is wrong: give True or False"):
        asset_check(orders, blocking="yes")  # type: ignore[arg-type]


def blocking(name: str = "no_gaps", asset: Any = orders, **options: Any) -> Any:
    @asset_check(asset, blocking=True, task_id=name, **options)
    def check() -> bool:
        return True

    return check


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (orders, orders),
        (Asset("orders"), Asset.ref(name="orders")),
        (Asset.ref(uri="s3://shop/orders"), orders),
        (orders, Asset.ref(uri="s3://shop/orders")),
    ],
    ids=repr,
)
def test_no_other_task_emits_what_a_check_blocks(theirs: Any, ours: Any) -> None:
    line = 0

    def build() -> None:
        nonlocal line
        line = currentframe().f_lineno + 1  # type: ignore[union-attr]
        load = EmptyOperator(task_id="load", outlets=[theirs])
        load >> blocking(asset=ours)()

    with pytest.raises(DagError, match=r"Take it from these outlets: the check emits the event") as told:
        spec_of(build)
    assert "'load'" in str(told.value)
    assert (told.value.file, told.value.line) == (__file__, line)


def test_other_assets_and_aliases_are_not_concerned() -> None:
    def build() -> None:
        EmptyOperator(task_id="load", outlets=[Asset("other"), AssetAlias("orders")])
        blocking()()

    spec_of(build)


def test_two_checks_do_not_both_let_consumers_begin() -> None:
    def build() -> None:
        blocking("first")()
        blocking("second")()

    with pytest.raises(DagError, match=r"'second' .* 'first' both block.*Let 'second' wait for 'first', and leave out"):
        spec_of(build)


def test_checks_of_two_assets_may_both_block() -> None:
    def build() -> None:
        blocking("first")()
        blocking("second", Asset("rates"))()

    spec_of(build)


def test_a_blocking_check_has_one_instance() -> None:
    def mapped() -> None:
        @asset_check(orders, blocking=True)
        def no_gaps(country: str) -> bool:
            return True

        no_gaps.expand(country=["nl", "be"])

    def in_a_mapped_group() -> None:
        @task_group
        def each(country: str) -> None:
            blocking()()

        each.expand(country=["nl", "be"])

    for build in (mapped, in_a_mapped_group):
        with pytest.raises(DagError, match="has several instances, and the first that passes"):
            spec_of(build)


@pytest.mark.parametrize("options", [{"outlets": [Asset("other")]}, {"inlets": []}], ids=repr)
def test_an_override_does_not_silently_take_the_asset_away(options: dict[str, Any]) -> None:
    with pytest.raises(DagError, match="has lost its asset, because inlets= or outlets= were given anew"):
        spec_of(lambda: blocking().override(**options)())


def test_an_outlet_that_a_check_has_by_itself_blocks_as_well() -> None:
    def build() -> None:
        @asset_check(orders, outlets=[orders])
        def check() -> bool:
            return True

        check()
        PythonOperator(task_id="load", python_callable=len, outlets=[orders])

    with pytest.raises(DagError, match="Take it from these outlets"):
        spec_of(build)


def test_a_plain_task_is_no_check() -> None:
    def build() -> None:
        @task(inlets=[orders], outlets=[orders])
        def load() -> None: ...

        load()

    assert not any(is_check for *_, is_check in mentions(spec_of(build)))


# -- results ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "status"), [(True, "pass"), (False, "fail"), (CheckResult("warn", "m"), "warn")])
def test_what_a_function_returns_is_a_result(value: Any, status: str) -> None:
    assert result_of(value, "t").status == status


class LikeABoolean:
    def __bool__(self) -> bool:
        return True


@pytest.mark.parametrize("value", [None, 1, 0, "pass", {}, LikeABoolean(), ("warn", "m")])
def test_nothing_else_is(value: Any) -> None:
    with pytest.raises(AioschedError, match=r"The check 't' returned .*return True, False or CheckResult"):
        result_of(value, "t")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"status": "ok"}, "give 'pass', 'warn' or 'fail'"),
        ({"status": True}, "give 'pass', 'warn' or 'fail'"),
        ({"status": ["pass"]}, "give 'pass', 'warn' or 'fail'"),
        ({"status": "pass", "message": 5}, "message=.* is an int: give text"),
        ({"status": "pass", "metadata": [1]}, "metadata=.* is a list: give a dict"),
        ({"status": "pass", "metadata": {1: 2}}, "has the key 1, which is no text"),
        ({"status": "pass", "metadata": {"x": object()}}, r"\['x'\] is an object, which"),
        ({"status": "pass", "metadata": {"x": "a\0b"}}, "NUL"),
        ({"status": "pass", "metadata": {"x": "\ud800"}}, "surrogate"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_result_that_cannot_be_is_refused_where_it_is_made(given: dict[str, Any], told: str) -> None:
    with pytest.raises((ValueError, TypeError), match=told):
        CheckResult(**given)


def test_messages_are_made_storable_and_cut_and_hold_no_secrets() -> None:
    secrets.register("hunter2-and-more")
    shown = CheckResult("warn", "\x1b[31ma\0b \ud800 hunter2-and-more", {"why": "hunter2-and-more"}).shown()

    assert shown == {"status": "warn", "message": r"a\x00b \ud800 ***", "metadata": {"why": "***"}}
    assert len(CheckResult("warn", "x" * 5_000).shown()["message"]) == LONGEST_MESSAGE


def told(**given: Any) -> dict[str, Any]:
    return {"task_id": "t", "map_index": -1, "try_number": 1, "status": "pass", **given}


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (told(status="good"), "wrong"),
        (told(status=None), "wrong"),
        (told(map_index="x"), "wrong"),
        (told(try_number=None), "wrong"),
        ({"status": "pass"}, "wrong"),
        (told(task_id=["t"]), "wrong"),
        (told(message={"a": 1}), "wrong"),
        (told(message="a\0b"), "NUL"),
        (told(message="x" * (LONGEST_MESSAGE + 1)), "has a message of"),
        (told(metadata=[1]), "wrong"),
        (told(metadata={"a": math.nan}), "is nan"),
        (told(metadata={"a": "\0"}), "NUL"),
        (told(metadata={"a": 2**70}), "64 bits"),
        (told(metadata={"a": "x" * MOST_METADATA}), "characters of metadata"),
        (told(task_id="t" * 100_000, message="\0"), "NUL"),
    ],
    ids=lambda value: repr(value)[:50],
)
def test_a_report_that_a_hostile_attempt_wrote_is_refused_in_few_words(args: dict[str, Any], why: str) -> None:
    with pytest.raises(Refused, match=why) as refused:
        read_report(args)
    assert len(str(refused.value)) < 500


def test_the_worst_is_what_people_need_to_see() -> None:
    assert [worst(of) for of in ([], [None], ["pass", None], ["pass", "warn"], ["warn", "fail", "pass"])] == [
        None, None, "pass", "warn", "fail",
    ]  # fmt: skip
