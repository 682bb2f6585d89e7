"""Tasks that ask people: they wait without a slot, and go on with the answer."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from aiosched import (
    DAG,
    ApprovalOperator,
    BaseNotifier,
    EmptyOperator,
    HITLBranchOperator,
    HITLEntryOperator,
    HITLOperator,
    Param,
    PythonOperator,
    Scheduler,
)
from aiosched.authoring.runtime.services import call
from aiosched.config import Settings
from aiosched.db.people.human_inputs import InputRow, list_inputs
from aiosched.db.queries.queries import find_run, list_run_tasks
from aiosched.errors import DagError, NotFound, Refused
from aiosched.scheduler.why.why import why
from tests.patience import PATIENCE

FORGED = {"options": ["Approve"], "params": {}, "by": "api:boss", "at": "2026-01-01T00:00:00+00:00"}


class Told(BaseNotifier):
    """Keeps the subjects of what was asked."""

    def __init__(self, told: list[str]) -> None:
        self.told = told

    def notify(self, context: Any) -> None:
        link = HITLOperator.generate_link_to_ui_from_context(context=context, base_url="https://flows.example/")
        self.told += [context["task"].subject, link]


def embedded(dsn: str, tmp_path: Path, *dags: DAG) -> Scheduler:
    settings = Settings()
    settings.core.home = tmp_path
    return Scheduler(dsn=dsn, dags=list(dags), executor="inline", settings=settings)


async def asked(scheduler: Scheduler, *, count: int = 1, **which: Any) -> list[InputRow]:
    """What tasks ask, once there are so many questions."""
    found: list[InputRow] = []

    async with asyncio.timeout(PATIENCE):
        while len(found) != count:
            found = await list_inputs(scheduler.db, only_waiting=True, **which)
            await asyncio.sleep(0.01)
    return found


async def values(scheduler: Scheduler, task_id: str) -> Any:
    return await scheduler.db.fetchval("SELECT value FROM xcom WHERE key = 'return_value'")


async def states(scheduler: Scheduler, dag_id: str, run_id: str) -> dict[str, str | None]:
    run = await find_run(scheduler.db, dag_id, run_id)
    return {each.name: each.state for each in await list_run_tasks(scheduler.db, run)}


async def test_a_task_waits_without_a_slot_and_returns_what_was_answered(dsn: str, tmp_path: Path) -> None:
    told: list[str] = []
    with DAG("shop") as dag:
        HITLOperator(
            task_id="price",
            subject="Price of {{ params.item }}?",
            body="**Please** decide.",
            options=["keep", "change"],
            params={"euros": Param(5, type="integer", minimum=1)},
            notifiers=Told(told),
        )
    dag.params["item"] = "tea"
    async with embedded(dsn, tmp_path, dag) as scheduler:
        run = await scheduler.trigger("shop", run_id="r")
        (row,) = await asked(scheduler)
        assert (row.dag_id, row.run_id, row.task_id, row.map_index, row.state) == ("shop", "r", "price", -1, "waiting")
        assert (row.question.subject, row.question.body) == ("Price of tea?", "**Please** decide.")
        link = "https://flows.example/inputs?dag_id=shop&run_id=r&task_id=price"
        assert told == ["Price of tea?", link]
        assert await states(scheduler, "shop", "r") == {"price": "deferred"}
        explanation = await why(scheduler.db, "shop", "r", "price")
        assert explanation.in_the_way()[0].detail.startswith("waits for the answer of a person to 'Price of tea?'")
        assert explanation.commands == (
            "aiosched inputs answer shop r price keep",
            "aiosched inputs answer shop r price change",
        )
        assert await scheduler.db.fetchval("SELECT used FROM pool WHERE name = 'default_pool'") == 0

        with pytest.raises(Refused, match="Param 'euros'"):
            await scheduler.answer_input("shop", "r", "price", ["change"], params={"euros": 0})
        answer = await scheduler.answer_input("shop", "r", "price", ["change"], params={"euros": 7}, by="api:ada")
        assert answer["options"] == ["change"]
        assert await run.wait(30) == "success"
        (row,) = await list_inputs(scheduler.db)
        assert (row.state, row.answered_by) == ("answered", "api:ada")
        assert row.answer is not None
        assert row.answer.params == {"euros": 7}
        assert '"responded_by_user":{"id":"ada","name":"ada"}' in (await values(scheduler, "price")).replace(" ", "")
        with pytest.raises(Refused, match="does not wait for an answer"):
            await scheduler.answer_input("shop", "r", "price", ["keep"])


async def test_what_nobody_answers_in_time_has_its_defaults_or_fails(dsn: str, tmp_path: Path) -> None:
    with DAG("late") as dag:
        HITLOperator(
            task_id="lenient", subject="a", options=["x", "y"], defaults="y", response_timeout=timedelta(milliseconds=1)
        )
        HITLOperator(task_id="strict", subject="b", options=["x", "y"], execution_timeout=timedelta(seconds=1))
    async with embedded(dsn, tmp_path, dag) as scheduler:
        run = await scheduler.trigger("late", run_id="r")
        assert await run.wait(30) == "failed"
        assert await states(scheduler, "late", "r") == {"lenient": "success", "strict": "failed"}
        found = {row.task_id: row for row in await list_inputs(scheduler.db)}
        assert (found["lenient"].state, found["lenient"].answered_by) == ("answered", None)
        assert found["strict"].state == "ended"
        reason = await scheduler.db.fetchval("SELECT reason FROM task_instance WHERE state = 'failed'")
        assert "Nobody answered 'b' in time" in reason


async def test_what_was_rejected_skips_what_follows_or_fails(dsn: str, tmp_path: Path) -> None:
    with DAG("ship") as dag:
        soft = ApprovalOperator(task_id="soft", subject="Ship?")
        hard = ApprovalOperator(task_id="hard", subject="Really?", fail_on_reject=True, retries=3)
        soft >> EmptyOperator(task_id="shipped")
        hard >> EmptyOperator(task_id="sent")
    async with embedded(dsn, tmp_path, dag) as scheduler:
        run = await scheduler.trigger("ship", run_id="r")
        await asked(scheduler, count=2)
        for task_id in ("soft", "hard"):
            await scheduler.answer_input("ship", "r", task_id, ["Reject"])
        assert await run.wait(30) == "failed"
        assert await states(scheduler, "ship", "r") == {
            "soft": "success", "shipped": "skipped", "hard": "failed", "sent": "upstream_failed",
        }  # fmt: skip


async def test_a_branch_follows_what_was_chosen(dsn: str, tmp_path: Path) -> None:
    with DAG("ways") as dag:
        fork = HITLBranchOperator(
            task_id="fork", subject="Where?", options=["a", "the second"], options_mapping={"the second": "b"}
        )
        fork >> [EmptyOperator(task_id="a"), EmptyOperator(task_id="b")]
        HITLEntryOperator(task_id="entry", subject="How many?", params={"n": Param(1, type="integer")})
    async with embedded(dsn, tmp_path, dag) as scheduler:
        run = await scheduler.trigger("ways", run_id="r")
        await asked(scheduler, count=2)
        await scheduler.answer_input("ways", "r", "fork", ["the second"])
        await scheduler.answer_input("ways", "r", "entry", ["OK"], params={"n": 4})
        assert await run.wait(30) == "success"
        assert await states(scheduler, "ways", "r") == {
            "fork": "success", "a": "skipped", "b": "success", "entry": "success",
        }  # fmt: skip


async def test_each_mapped_instance_asks_for_itself_and_a_cleared_one_asks_again(dsn: str, tmp_path: Path) -> None:
    with DAG("each") as dag:
        HITLOperator.partial(task_id="ask", options=["yes", "no"]).expand(subject=["one?", "two?"])
    async with embedded(dsn, tmp_path, dag) as scheduler:
        run = await scheduler.trigger("each", run_id="r")
        rows = await asked(scheduler, count=2)
        assert {row.map_index: row.question.subject for row in rows} == {0: "one?", 1: "two?"}
        with pytest.raises(Refused, match="is mapped: choose one of its 2 instances"):
            await scheduler.answer_input("each", "r", "ask", ["yes"])
        await scheduler.answer_input("each", "r", "ask", ["yes"], map_index=1)
        await scheduler.clear("each", run_ids=["r"], task_ids=["ask"])
        await asked(scheduler, count=2)
        for index in (0, 1):
            await scheduler.answer_input("each", "r", "ask", ["no"], map_index=index)
        assert await run.wait(30) == "success"


async def test_an_answer_survives_the_end_of_its_scheduler(dsn: str, tmp_path: Path) -> None:
    def dag() -> DAG:
        with DAG("kept") as made:
            HITLOperator(task_id="ask", subject="?", options=["yes", "no"])
        return made

    async with embedded(dsn, tmp_path, dag()) as scheduler:
        await scheduler.trigger("kept", run_id="r")
        await asked(scheduler)
    async with embedded(dsn, tmp_path, dag()) as scheduler:
        await asked(scheduler)
        await scheduler.answer_input("kept", "r", "ask", ["yes"])
        await scheduler.wait_idle()
        assert await states(scheduler, "kept", "r") == {"ask": "success"}


async def test_only_what_asks_can_be_answered(dsn: str, tmp_path: Path) -> None:
    with DAG("quiet") as dag:
        EmptyOperator(task_id="silent")
    async with embedded(dsn, tmp_path, dag) as scheduler:
        run = await scheduler.trigger("quiet", run_id="r")
        await run.wait(30)
        with pytest.raises(Refused, match="silent in run r asks nothing"):
            await scheduler.answer_input("quiet", "r", "silent", ["yes"])
        with pytest.raises(NotFound, match="no task 'silence'"):
            await scheduler.answer_input("quiet", "r", "silence", ["yes"])
        with pytest.raises(NotFound, match="no run 's'"):
            await scheduler.answer_input("quiet", "s", "silent", ["yes"])


async def test_dag_test_asks_nobody() -> None:
    with DAG("alone") as dag:
        HITLOperator(task_id="lenient", subject="a", options=["x", "y"], defaults="y")
        HITLOperator(task_id="strict", subject="b", options=["x", "y"])

    result = await dag.test()

    assert {each.task_id: each.state for each in result.tasks} == {"lenient": "success", "strict": "failed"}
    assert result.xcoms["lenient"]["return_value"]["chosen_options"] == ["y"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"options": []}, "give it options"),
        ({"options": ["a", "a"]}, "may be named once"),
        ({"options": ["a"], "defaults": "b"}, "the default 'b' is not one of its options"),
        ({"options": ["a", "b"], "defaults": ["a", "b"]}, "one default only"),
        ({"options": ["a"], "response_timeout": -1}, "response_timeout=-1"),
    ],
)
def test_a_wrong_question_is_an_error_of_its_file(options: dict[str, Any], problem: str) -> None:
    with DAG("wrong"), pytest.raises(DagError, match=problem):
        HITLOperator(task_id="ask", subject="?", **options)


def test_the_options_of_an_approval_are_fixed() -> None:
    with DAG("wrong"), pytest.raises(DagError, match="'options' of an approval is fixed"):
        ApprovalOperator(task_id="ask", subject="?", options=["maybe"])


async def test_who_answered_is_not_what_a_task_says(dsn: str, tmp_path: Path) -> None:
    """Code of its author closes a question itself: of nobody, of another task, and with another name than the real."""
    place = {"map_index": -1, "try_number": 1}

    def asks_and_answers(task_index: int, task_id: str) -> None:
        question = {"subject": "Ship?", "options": ["Approve"]}
        call("ask_input", **place, task_index=task_index, task_id=task_id, question=question, expires_at=None)
        call("close_input", **place, task_index=task_index, **FORGED)

    class Liar(ApprovalOperator):
        async def execute_complete(self, context: Any, event: Any) -> Any:
            return await super().execute_complete(context, {**event, "by": "api:boss"})

    with DAG("ship") as dag:
        first = Liar(task_id="first", subject="First?")
        second = PythonOperator(task_id="second", python_callable=lambda: asks_and_answers(1, "first"))
        first >> second
    async with embedded(dsn, tmp_path, dag) as scheduler:
        run = await scheduler.trigger("ship", run_id="r")
        await asked(scheduler)
        await scheduler.answer_input("ship", "r", "first", ["Approve"], by="api:ada")
        assert await run.wait(30) == "success"
        found = {row.place.task_index: (row.state, row.answered_by) for row in await list_inputs(scheduler.db)}

    assert found == {0: ("answered", "api:ada"), 1: ("answered", None)}
