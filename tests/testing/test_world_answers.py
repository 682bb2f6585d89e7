"""Tasks of a world that ask people, and tests that answer."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from aiosched import (
    DAG,
    ApprovalOperator,
    EmptyOperator,
    HITLBranchOperator,
    HITLEntryOperator,
    HITLOperator,
    Param,
)
from aiosched.authoring.runtime.xcom_values import read_xcom
from aiosched.errors import NotFound, Refused
from aiosched.testing import World, succeeds

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def world(**options: Any) -> World:
    return World(now=NEW_YEAR, **options)


def asking() -> DAG:
    with DAG("d", schedule=None) as dag:
        price = HITLOperator(
            task_id="price", subject="Which price for {{ run_id }}?", options=["keep", "change"],
            params={"euros": Param(5, type="integer", minimum=1)},
        )  # fmt: skip
        price >> ApprovalOperator(task_id="approve", subject="Ship it?") >> EmptyOperator(task_id="ship")
    return dag


async def test_a_task_waits_until_a_test_answers_and_goes_on_with_the_answer() -> None:
    async with world() as it:
        it.add(asking())
        run = it.trigger("d", run_id="r")
        await it.run_for(timedelta(hours=1))
        assert it.states("d", run) == {"price": "deferred", "approve": None, "ship": None}
        question = it.question("d", run, "price")
        assert (question.subject, question.options) == ("Which price for r?", ("keep", "change"))

        given = it.answer_input("d", run, "price", ["change"], params={"euros": 7}, by="api:ada")
        await it.run_for(timedelta(hours=1))

        assert given == {
            "run_id": "r", "task_id": "price", "map_index": -1, "options": ["change"], "params": {"euros": 7},
        }  # fmt: skip
        assert json.loads(it.xcom("d", run, "price") or "") == {
            "chosen_options": ["change"], "params_input": {"euros": 7}, "responded_at": "2026-01-01T01:00:00+00:00",
            "responded_by_user": {"id": "ada", "name": "ada"},
        }  # fmt: skip
        assert it.states("d", run)["approve"] == "deferred"


@pytest.mark.parametrize(("option", "state"), [("Approve", "success"), ("Reject", "skipped")])
async def test_an_approval_decides_what_follows(option: str, state: str) -> None:
    async with world(schedulers=2) as it:
        it.add(asking())
        it.script("d", "price", succeeds())
        run = it.trigger("d")
        await it.run_for(timedelta(hours=1))

        it.answer_input("d", run, "approve", [option])
        await it.run_until_idle()

        assert it.states("d", run) == {"price": "success", "approve": "success", "ship": state}


async def test_a_branch_follows_what_was_chosen() -> None:
    with DAG("d", schedule=None) as dag:
        which = HITLBranchOperator(task_id="which", subject="Where?", options=["left", "right"])
        which >> [EmptyOperator(task_id="left"), EmptyOperator(task_id="right")]
    async with world() as it:
        it.add(dag)
        run = it.trigger("d")
        await it.run_for(timedelta(minutes=1))

        it.answer_input("d", run, "which", ["right"])
        await it.run_until_idle()

        assert it.states("d", run) == {"which": "success", "left": "skipped", "right": "success"}


async def test_without_an_answer_in_time_the_defaults_are_chosen_or_the_task_fails() -> None:
    with DAG("d", schedule=None) as dag:
        HITLEntryOperator(task_id="form", subject="OK?", response_timeout=3600)
        HITLOperator(task_id="strict", subject="Which?", options=["a"], response_timeout=3600)
    async with world() as it:
        it.add(dag)
        run = it.trigger("d")

        await it.run_until_idle()

        assert it.states("d", run) == {"form": "success", "strict": "failed"}
        assert "Nobody answered 'Which?' in time" in it.task("d", run, "strict").reason
        assert it.task("d", run, "form").end_date >= NEW_YEAR + timedelta(hours=1)


async def test_answers_that_do_not_fit_are_refused_as_by_a_scheduler() -> None:
    with DAG("m", schedule=None) as mapped:
        HITLOperator.partial(task_id="ask", options=["a"]).expand(subject=["one", "two"])
    async with world() as it:
        it.add(asking(), mapped)
        run, other = it.trigger("d", run_id="r"), it.trigger("m")
        with pytest.raises(NotFound, match=r"asks nothing \(yet\)"):
            it.answer_input("d", run, "price", ["keep"])
        await it.run_for(timedelta(minutes=1))

        with pytest.raises(Refused, match="'sell' is not an option"):
            it.answer_input("d", run, "price", ["sell"])
        with pytest.raises(Refused, match="euros"):
            it.answer_input("d", run, "price", ["keep"], params={"euros": 0})
        with pytest.raises(Refused, match="choose one of its 2 instances"):
            it.answer_input("m", other, "ask", ["a"])
        with pytest.raises(NotFound, match="no such instance"):
            it.answer_input("m", other, "ask", ["a"], map_index=7)
        with pytest.raises(NotFound, match="no task 'pric'"):
            it.answer_input("d", run, "pric", ["keep"])

        it.answer_input("m", other, "ask", ["a"], map_index=1)
        it.answer_input("d", run, "price", ["keep"])
        with pytest.raises(Refused, match=r"does not wait for an answer \(any longer\)"):
            it.answer_input("d", run, "price", ["keep"])
        await it.run_for(timedelta(minutes=1))
        assert it.states("m", other) == {("ask", 0): "deferred", ("ask", 1): "success"}


@pytest.mark.parametrize("answers", [True, False], ids=["answered", "by default"])
async def test_params_that_people_fill_in_have_the_types_of_their_defaults(answers: bool) -> None:
    with DAG("d", schedule=None) as dag:
        params = {"due": date(2026, 1, 31), "sum": Decimal("1.50"), "names": {"a"}}
        HITLEntryOperator(task_id="ask", subject="?", params=params, response_timeout=timedelta(hours=2))
    async with world() as it:
        it.add(dag)
        run = it.trigger("d", run_id="r")
        await it.run_for(timedelta(hours=1))
        if answers:
            with pytest.raises(Refused, match="Param 'due': 'soon' is no date, which its default is"):
                it.answer_input("d", run, "ask", ["OK"], params={"due": "soon"})
            it.answer_input("d", run, "ask", ["OK"], params={"due": "2026-07-01", "names": ["b"]})
        await it.run_for(timedelta(hours=2))

        got = read_xcom(it.xcom("d", run, "ask") or "")["params_input"]
        changed = {"due": date(2026, 7, 1), "sum": Decimal("1.50"), "names": {"b"}}
        assert got == (changed if answers else params)
