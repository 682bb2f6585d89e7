"""Params as authors declare them. Source: the semantics reference, section 27."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from authoring_builders import attempt_of, run_task

from aiosched import DAG, Asset, EmptyOperator, HITLEntryOperator, Param, PythonOperator, dag, task
from aiosched.authoring.base.params import ParamsDict
from aiosched.core.graph.params import resolve_params
from aiosched.core.graph.spec import ParamSpec
from aiosched.errors import DagError, ParamError


def test_a_param_says_what_the_scheduler_checks() -> None:
    built = DAG("d", params={"n": Param(5, "how many", type="integer", minimum=1), "plain": [1], "none": Param()})

    assert built.to_spec().params == {
        "n": ParamSpec(value=5, description="how many", json_schema={"type": "integer", "minimum": 1}),
        "plain": ParamSpec(value=[1]),
        "none": ParamSpec(required=True),
    }


def test_a_schema_may_be_given_as_a_dict_or_by_name() -> None:
    assert Param(1, schema={"type": "integer"}, minimum=0).schema == {"type": "integer", "minimum": 0}


@pytest.mark.parametrize("moment", [date(2026, 1, 31), datetime(2026, 1, 31, 6, tzinfo=UTC)])
def test_dates_become_text(moment: date) -> None:
    assert Param(moment).value == moment.isoformat()


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

    assert built.param("region").name == "region"
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
