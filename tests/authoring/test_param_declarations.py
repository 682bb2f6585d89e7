"""Params as authors declare them. Source: the semantics reference, section 27."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from zoneinfo import ZoneInfo

import pendulum
import pytest

from aiosched import DAG, Asset, EmptyOperator, HITLEntryOperator, Param, PythonOperator, dag, task
from aiosched.authoring.base.params import ParamsDict
from aiosched.core.graph.params import resolve_params
from aiosched.core.graph.spec import ParamSpec
from aiosched.errors import DagError, ParamError
from aiosched.executors.attempt.secret_conf import with_secrets
from tests.authoring.authoring_builders import attempt_of, run_task


def test_a_param_says_what_the_scheduler_checks() -> None:
    built = DAG("d", params={"n": Param(5, "how many", type="integer", minimum=1), "plain": [1], "none": Param()})

    assert built.to_spec().params == {
        "n": ParamSpec(value=5, description="how many", json_schema={"type": "integer", "minimum": 1}),
        "plain": ParamSpec(value=[1]),
        "none": ParamSpec(required=True),
    }


def test_a_schema_may_be_given_as_a_dict_or_by_name() -> None:
    assert Param(1, schema={"type": "integer"}, minimum=0).schema == {"type": "integer", "minimum": 0}


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Window:
    day: date
    size: Decimal = Decimal("1.50")


@pytest.mark.parametrize(
    ("default", "stored"),
    [
        (date(2026, 1, 31), "2026-01-31"),
        (datetime(2026, 1, 31, 6, tzinfo=UTC), "2026-01-31T06:00:00+00:00"),
        (time(6), "06:00:00"),
        (timedelta(hours=1), 3600),
        (Decimal("1.50"), "1.50"),
        (("a", 1), ["a", 1]),
        ({"b", "a"}, ["a", "b"]),
        ({1, "a", None}, ["a", 1, None]),
        (Colour.RED, "red"),
        (Window(date(2026, 1, 31)), {"day": "2026-01-31", "size": "1.50"}),
        (pendulum.datetime(2026, 1, 31, tz="Europe/Amsterdam"), "2026-01-31T00:00:00+01:00"),
        ({"days": [date(2026, 1, 31)], "n": 1}, {"days": ["2026-01-31"], "n": 1}),
        ({1: "a"}, {"1": "a"}),
        (math.nan, "nan"),
        (2**70, str(2**70)),
        (b"abc", "YWJj"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_default_of_any_type_is_stored_as_json_and_with_its_type(default: Any, stored: Any) -> None:
    dag = DAG("d", params={"p": default, "q": Param(default, "of the schema", title="t")})
    spec = dag.to_spec().params["p"]

    assert (
        sorted(map(str, spec.value)) == sorted(map(str, stored)) if isinstance(default, set) else spec.value == stored
    )
    assert spec.typed is not None
    assert "test_param_declarations" not in str(spec.typed)  # the same spec wherever the module of the DAG file is
    assert dag.params["q"] is default


def test_values_of_json_are_stored_as_before() -> None:
    for value in (1, 1.5, "a", None, True, [1, {"a": None}], {"a": [1]}):
        assert Param(value).to_spec() == ParamSpec(value=value)


def test_the_members_of_an_enum_are_its_schema() -> None:
    assert Param(Colour.RED).to_spec().json_schema == {"enum": ["red", "blue"]}
    assert Param(Colour.RED, type=["string", "null"]).to_spec().json_schema["enum"] == ["red", "blue", None]
    assert Param(Colour.RED, enum=["red"]).to_spec().json_schema == {"enum": ["red"]}


@pytest.mark.parametrize(
    ("default", "message"),
    [
        (lambda: 1, "is a function, which JSON cannot hold"),
        ("half \ud800", "lone surrogates"),
        ({"a": [object()]}, r"\['a'\]\[0\] is an object"),
    ],
)
def test_a_default_that_cannot_be_given_back_is_an_error_at_the_authors_line(default: Any, message: str) -> None:
    with pytest.raises(ParamError, match=f"Param 'p' of DAG 'd' cannot be stored: .*{message}") as caught:
        DAG("d", params={"p": Param(default)}).to_spec()
    assert caught.value.file == __file__


DEFAULTS: dict[str, Any] = {
    "aware": datetime(2026, 1, 31, 6, tzinfo=ZoneInfo("Europe/Amsterdam")),
    "naive": datetime.fromisoformat("2026-01-31T06:00"),
    "pendulum": pendulum.datetime(2026, 1, 31, tz="Europe/Amsterdam"),
    "day": date(2026, 1, 31),
    "clock": time(6),
    "wait": timedelta(hours=1),
    "price": Decimal("1.50"),
    "pair": ("a", 1),
    "names": {"a"},
    "colour": Colour.RED,
    "window": Window(date(2026, 1, 31)),
    "nested": {"days": [date(2026, 1, 31)], "n": 1},
    "by_number": {1: "a"},
    "ratio": math.inf,
    "large": 2**70,
    "maybe": Param(date(2026, 1, 31), type=["string", "null"]),
    "text": "2026-01-31",
}


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("aware", "2026-07-01T00:00:00Z", datetime(2026, 7, 1, 2, tzinfo=ZoneInfo("Europe/Amsterdam"))),
        ("aware", "2026-07-01", datetime(2026, 7, 1, tzinfo=ZoneInfo("Europe/Amsterdam"))),
        ("naive", "2026-07-01T00:00:00", datetime.fromisoformat("2026-07-01T00:00")),
        ("naive", "2026-07-01T02:00:00+02:00", datetime.fromisoformat("2026-07-01T00:00")),
        ("pendulum", "2026-07-01T00:00:00", pendulum.datetime(2026, 7, 1, tz="Europe/Amsterdam")),
        ("day", "2026-07-01", date(2026, 7, 1)),
        ("day", {"$aiosched": "date", "value": "2026-07-01"}, date(2026, 7, 1)),
        ("clock", "07:30", time(7, 30)),
        ("wait", 90.5, timedelta(seconds=90.5)),
        ("price", 2, Decimal(2)),
        ("price", "2.50", Decimal("2.50")),
        ("pair", ["b", 2], ("b", 2)),
        ("names", ["b", "c"], {"b", "c"}),
        ("colour", "blue", Colour.BLUE),
        ("window", {"day": "2026-07-01", "size": 2}, Window(date(2026, 7, 1), Decimal(2))),
        ("nested", {"days": ["2026-07-01", "2026-07-02"]}, {"days": [date(2026, 7, 1), date(2026, 7, 2)]}),
        ("by_number", {"1": "b", "2": "c"}, {1: "b", 2: "c"}),
        ("ratio", 0.5, 0.5),
        ("ratio", "-inf", -math.inf),
        ("large", 5, 5),
        ("large", str(2**80), 2**80),
        ("maybe", None, None),
        ("maybe", "2026-07-01", date(2026, 7, 1)),
        ("text", "2026-07-01", "2026-07-01"),
    ],
)
async def test_what_people_give_has_the_type_of_the_default_in_the_task(name: str, given: Any, value: Any) -> None:
    got: list[Any] = []
    with DAG("d", params=DEFAULTS) as built:

        @task
        def work(params: Any) -> None:
            got.append(params[name])

        work()  # type: ignore[call-arg]  # the context gives it
    spec = built.to_spec()
    resolve_params(spec.params, {name: given})
    attempt = with_secrets(attempt_of("work", conf={name: given}))
    await run_task(built.task("work"), attempt)
    await run_task(built.task("work"), attempt_of("work"))

    default = DEFAULTS[name]
    assert got == [value, default.value if isinstance(default, Param) else default]
    assert type(got[0]) is type(value)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("aware", "soon", "'soon' is no datetime, which its default is: give a value such as '2026-01-31T06:00:00"),
        ("naive", 5, "5 is no datetime"),
        ("pendulum", "", "'' is no pendulum.DateTime"),
        ("day", "2026-02-31", "'2026-02-31' is no date, which its default is: give a value such as '2026-01-31'"),
        ("clock", "25:00", "'25:00' is no time"),
        ("wait", "1 h", "'1 h' is no timedelta, which its default is: give a value such as 3600"),
        ("price", "much", "'much' is no decimal"),
        ("names", "a", "'a' is no set, which its default is: give a value such as ['a']"),
        ("colour", "green", "'green' is not one of ['red', 'blue']"),
        ("window", {"day": "x"}, "'x' is no date"),
        ("nested", {"days": ["x"]}, "'x' is no date"),
        ("by_number", [1], "[1] is no dict"),
        ("ratio", "wide", "'wide' is no float"),
        ("large", "9" * 5_000, "is no int"),
        ("large", {"$aiosched": "int", "value": "9" * 5_000}, "is no int"),
    ],
)
def test_what_cannot_have_the_type_of_the_default_is_refused_when_it_is_given(
    name: str, given: Any, message: str
) -> None:
    params = DAG("d", params=DEFAULTS).to_spec().params

    with pytest.raises(ParamError) as caught:
        resolve_params(params, {name: given})
    assert str(caught.value).startswith(f"Param {name!r}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"type": "int"}, "there is no type 'int'. Use one of: array, boolean"),
        ({"enum": "abc"}, "the schema cannot be used: enum: 'abc' is not of type array"),
        ({"schema": {"examples": "abc"}}, "the schema cannot be used: examples: 'abc' is not of type array"),
        ({"description": 7}, "the description must be text, not 7"),
    ],
)
def test_a_param_that_cannot_be_used_is_an_error_at_the_authors_line(given: dict[str, Any], message: str) -> None:
    for declare, owner in (
        (lambda: DAG("d", params={"p": Param("a", **given)}), "DAG 'd'"),
        (lambda: DAG("d", schedule="@daily", default_args={"params": {"p": Param("a", **given)}}), "DAG 'd'"),
        (lambda: EmptyOperator(task_id="t", params={"p": Param("a", **given)}).params, "task 't'"),
        (lambda: HITLEntryOperator(task_id="t", subject="?", params={"p": Param("a", **given)}), "task 't'"),
    ):
        with pytest.raises(ParamError) as caught:
            declare()

        assert str(caught.value).startswith(f"Param 'p' of {owner}: {message}")
        assert caught.value.file == __file__


def test_tuples_of_a_schema_are_lists() -> None:
    params = {"p": Param("a", enum=("a", "b"), examples=("a",), type=("string", "null"))}

    assert DAG("d", params=params).to_spec().params["p"].json_schema == {
        "enum": ["a", "b"], "examples": ["a"], "type": ["string", "null"],
    }  # fmt: skip


def test_params_are_read_as_values_and_declared_as_params() -> None:
    params = ParamsDict({"a": 1, "b": Param(2, type="integer"), "c": Param()})
    params["d"] = 4
    del params["a"]

    assert dict(params) == params.dump() == {"b": 2, "c": None, "d": 4}
    assert params.get_param("b").schema == {"type": "integer"}
    assert len(params) == 3
    with pytest.raises(ParamError, match="'c' has no default"):
        params.validate()


def test_valid_defaults_are_given_back() -> None:
    assert ParamsDict({"a": Param(1, type="integer")}).validate() == {"a": 1}


async def test_a_param_as_an_argument_is_the_runs_value() -> None:
    @task
    def work(x: Any, y: Any) -> Any:
        return x, y

    @dag
    def built(region: str = "eu", limit: int = 5) -> None:
        work(region, [limit])
        PythonOperator(task_id="text", python_callable=lambda x: x, op_args=[f"in {region}"])

    made = built()

    assert (await run_task(made.task("work"), attempt_of("work", conf={"limit": 7})))[0] == ("eu", [7])
    assert (await run_task(made.task("text")))[0] == "in eu"
    assert resolve_params(made.to_spec().params, {"limit": 7}) == {"region": "eu", "limit": 7}


def test_an_unknown_param_of_a_dag_is_named_with_the_near_one() -> None:
    built = DAG("d", params={"region": 1})

    assert repr(built.param("region")) == "DagParam('region')"
    with pytest.raises(DagError, match=r"no param 'regoin'\. Did you mean 'region'"):
        built.param("regoin")


@pytest.mark.parametrize("schedule", ["@daily", "@once", "@continuous", [Asset("orders")]], ids=str)
def test_a_dag_with_a_schedule_needs_a_default_for_every_param(schedule: object) -> None:
    with DAG(
        "d", schedule=schedule, start_date=datetime(2026, 1, 1, tzinfo=UTC), params={"x": Param(type="string")}
    ) as dag:
        EmptyOperator(task_id="a")

    with pytest.raises(ParamError, match=r"has a schedule, so every param needs a valid default.*Give Param\(…\) one"):
        dag.to_spec()
