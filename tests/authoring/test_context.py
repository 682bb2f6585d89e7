"""The context of a task, as a dict with lazy values, and who sees it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pendulum
import pytest

from aiosched import DAG, EmptyOperator, get_current_context
from aiosched.authoring.runtime.context import current_context
from aiosched.authoring.tasks.previous_run import PREVIOUS_RUN
from aiosched.authoring.tasks.task_context import CONTEXT_KEYS
from aiosched.errors import AioschedError
from tests.authoring.authoring_builders import attempt_of, context_of


def task(**dag: Any) -> EmptyOperator:
    return EmptyOperator(task_id="t", dag=DAG("d", **dag), outlets=["o"])


def test_a_context_is_a_dict_whose_lazy_values_are_worked_out_once() -> None:
    context = context_of(task())

    assert "ds" in context
    assert context["logical_date"] is context["logical_date"]
    assert context.get("ds") == "2026-01-02"
    assert context.get("nothing", 5) == 5
    assert "nothing" not in context
    with pytest.raises(KeyError, match="nothing"):
        context["nothing"]


def test_every_way_of_reading_shows_the_same_values() -> None:
    context = context_of(task())
    everything = dict(**context)

    assert set(everything) == set(context) == set(context.keys()) == set(dict(context.items()))
    assert len(everything) == len(context) == len(list(context.values()))
    assert everything["ds"] == "2026-01-02"
    assert {**context.copy()} == everything
    assert set(everything) | {"templates_dict", *PREVIOUS_RUN} == CONTEXT_KEYS


def test_times_are_pendulum_in_utc() -> None:
    context = context_of(task())

    for name in ("logical_date", "data_interval_start", "data_interval_end"):
        assert isinstance(context[name], pendulum.DateTime)
        assert context[name].timezone_name == "UTC"


def test_a_run_without_a_logical_date_has_no_dates() -> None:
    context = context_of(task(), attempt_of(logical_date=None))

    assert {"ds", "ts", "logical_date", "data_interval_start"} & set(context) == set()
    assert context["dag_run"].logical_date is None


def test_params_are_the_tasks_with_the_runs_conf_over_them() -> None:
    context = context_of(task(params={"a": 1, "b": 2}), attempt_of(conf={"b": 3, "c": 4}))

    assert context["params"] == {"a": 1, "b": 3, "c": 4}
    assert context["conf"] == {"b": 3, "c": 4}


def test_what_is_set_stays_set() -> None:
    context = context_of(task())
    error = ValueError()
    context["exception"] = error
    context["ds"] = "mine"

    assert (context["exception"], context["ds"]) == (error, "mine")


def test_threads_and_coroutines_see_their_own_context() -> None:
    context = context_of(task())
    seen: list[Any] = []

    def elsewhere() -> None:
        try:
            seen.append(get_current_context())
        except AioschedError as error:
            seen.append(type(error))

    async def inside() -> None:
        with current_context(context):
            await asyncio.to_thread(elsewhere)
            await asyncio.create_task(asyncio.sleep(0))
            elsewhere()

    with current_context(context):
        elsewhere()
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    asyncio.run(inside())
    elsewhere()

    assert seen == [context, AioschedError, context, context, AioschedError]


def test_outlets_are_those_of_the_task() -> None:
    assert context_of(task())["outlets"] == ["o"]
