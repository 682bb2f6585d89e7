"""XComs as a running task pushes and pulls them. Source: the semantics reference, sections 27 and 36."""

from __future__ import annotations

from typing import Any

import pytest
from authoring_builders import FakeServices, attempt_of, not_allowed, without_loop

from aiosched import EmptyOperator
from aiosched.authoring.runtime.task_instance import TaskInstance
from aiosched.core.values.messages import XComRef

XCOMS = {
    ("plain", "return_value"): {-1: 1},
    ("plain", "k"): {-1: "v"},
    ("other", "return_value"): {-1: 2},
    ("mapped", "return_value"): {0: "a", 1: "b", 2: "c"},
    ("single", "return_value"): {0: "a"},
    ("t", "own"): {-1: "earlier"},
}
PRIOR = {("gone", "return_value"): {-1: "old"}, ("plain", "return_value"): {-1: "older"}}


def instance(*, map_index: int = -1, blocking: Any = without_loop) -> TaskInstance:
    attempt = attempt_of("t", map_index=map_index)
    return TaskInstance(attempt, EmptyOperator(task_id="t"), FakeServices(XCOMS, PRIOR), blocking)


@pytest.mark.parametrize(
    ("asked", "value"),
    [
        ({"task_ids": "plain"}, 1),
        ({"task_ids": "plain", "key": "k"}, "v"),
        ({"task_ids": "plain", "key": "nothing"}, None),
        ({"task_ids": "nobody", "default": 5}, 5),
        ({"task_ids": "mapped"}, ["a", "b", "c"]),
        ({"task_ids": "single"}, "a"),
        ({"task_ids": "mapped", "map_indexes": 1}, "b"),
        ({"task_ids": "mapped", "map_indexes": 7, "default": "d"}, "d"),
        ({"task_ids": "mapped", "map_indexes": [2, 0]}, ["c", "a"]),
        ({"task_ids": "mapped", "map_indexes": [0, 7], "default": "d"}, ["a", "d"]),
        ({"task_ids": "plain", "map_indexes": -1}, 1),
        ({"task_ids": ["plain", "other"]}, [1, 2]),
        ({"task_ids": ["plain"]}, [1]),
        ({"task_ids": ["plain", "nobody", "other"]}, [1, None, 2]),
        ({"task_ids": ["plain", "nobody"], "default": 0}, [1, 0]),
        ({"task_ids": ["plain", "mapped"]}, [1, "a", "b", "c"]),
        ({"task_ids": []}, []),
        ({"key": "own"}, "earlier"),
        ({}, None),
        ({"task_ids": "gone", "include_prior_dates": True}, "old"),
        ({"task_ids": "plain", "include_prior_dates": True}, 1),
        ({"task_ids": ["plain", "gone", "nobody"], "include_prior_dates": True}, [1, "old", None]),
        ({"task_ids": "gone"}, None),
    ],
)
async def test_what_a_pull_gives(asked: dict[str, Any], value: Any) -> None:
    import asyncio

    assert await asyncio.to_thread(lambda: instance().xcom_pull(**asked)) == value
    assert await instance().axcom_pull(**asked) == value


async def test_fetched_values_need_no_second_question() -> None:
    ti = instance(blocking=not_allowed)
    await ti.prefetch([XComRef("plain"), XComRef("mapped"), XComRef("plain"), XComRef("nobody")])
    await ti.prefetch([XComRef("plain")])

    assert ti.xcom_pull("plain") == 1
    assert ti.xcom_pull(["mapped", "nobody"]) == ["a", "b", "c", None]
    services = ti._services
    assert isinstance(services, FakeServices)
    assert services.calls == [[XComRef("plain"), XComRef("mapped"), XComRef("nobody")]]


async def test_a_fetched_value_can_be_changed_without_harm() -> None:
    ti = instance(blocking=not_allowed)
    await ti.prefetch([XComRef("mapped")])
    ti.xcom_pull("mapped").append("x")

    assert ti.xcom_pull("mapped") == ["a", "b", "c"]


def test_the_last_push_of_a_key_wins_and_the_task_sees_its_own() -> None:
    ti = instance(blocking=not_allowed)
    ti.xcom_push("k", 1)
    ti.xcom_push(key="k", value=2)

    assert ti.pushed == {"k": 2}
    assert ti.xcom_pull(key="k") == 2
    assert ti.xcom_pull("t", key="k") == 2


def test_a_mapped_task_pulls_its_own_index() -> None:
    ti = instance(map_index=1)
    ti.xcom_push("k", "mine")

    assert ti.xcom_pull(key="k") == "mine"
    assert ti.xcom_pull("mapped", map_indexes=ti.map_index) == "b"


def test_other_dags_and_runs_cannot_be_read() -> None:
    with pytest.raises(ValueError, match="Only XComs of the same run"):
        instance().xcom_pull("plain", dag_id="other")
    assert instance().xcom_pull("plain", dag_id="d", run_id="manual__1") == 1


def test_a_task_instance_knows_its_attempt() -> None:
    ti = instance()

    assert (ti.dag_id, ti.task_id, ti.run_id, ti.map_index) == ("d", "t", "manual__1", -1)
    assert (ti.try_number, ti.max_tries, ti.state) == (2, 3, "running")
    assert ti.key == ("d", "t", "manual__1", 2, -1)
    assert str(ti.logical_date) == "2026-01-02 03:04:05+00:00"
    assert ti.log.name == "aiosched.task"
