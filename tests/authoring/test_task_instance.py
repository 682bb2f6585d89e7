"""XComs as a running task pushes and pulls them. Source: the semantics reference, sections 27 and 36."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from aiosched import EmptyOperator
from aiosched.authoring.runtime.task_instance import TaskInstance
from aiosched.core.values.messages import XComPlace, XComRef
from tests.authoring.authoring_builders import FakeServices, attempt_of, not_allowed, without_loop

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


@pytest.mark.parametrize(
    ("asked", "value", "search"),
    [
        ({"task_ids": "plain", "dag_id": "other"}, "older", {"dag_id": "other"}),
        ({"task_ids": "plain", "run_id": "r"}, "older", {"run_id": "r"}),
        ({"task_ids": ["plain", "nobody"], "dag_id": "other", "default": 0}, ["older", 0], {"dag_id": "other"}),
        ({"task_ids": "plain", "dag_id": "other", "run_id": "manual__1"}, "older",
         {"dag_id": "other", "run_id": "manual__1"}),
        ({"task_ids": "gone", "include_prior_dates": True}, "old", {"earlier": True}),
        ({"task_ids": "gone", "dag_id": "other", "include_prior_dates": True}, "old",
         {"dag_id": "other", "earlier": True}),
        ({"key": "own", "dag_id": "other"}, None, {"dag_id": "other"}),
    ],
)  # fmt: skip
async def test_a_pull_of_another_dag_or_run_asks_for_it(asked: Any, value: Any, search: dict[str, Any]) -> None:
    import asyncio

    for call in ("xcom_pull", "axcom_pull"):
        ti = instance()
        ti.xcom_push("own", "pushed here")
        await ti.prefetch([XComRef("plain"), XComRef("gone")])
        if call == "xcom_pull":
            assert await asyncio.to_thread(lambda ti=ti: ti.xcom_pull(**asked)) == value
        else:
            assert await ti.axcom_pull(**asked) == value
        services = ti._services
        assert isinstance(services, FakeServices)
        (made,) = services.searches
        facts = {"dag_id": made.dag_id, "run_id": made.run_id, "earlier": made.earlier}
        assert {name: fact for name, fact in facts.items() if fact} == search


def test_naming_the_own_dag_and_run_is_a_pull_of_the_own_run() -> None:
    ti = instance()

    assert ti.xcom_pull("plain", dag_id="d", run_id="manual__1") == 1
    assert ti.xcom_pull("plain", dag_id="d") == ti.xcom_pull("plain", run_id="manual__1") == 1
    assert isinstance(ti._services, FakeServices)
    assert ti._services.searches == []


@pytest.mark.parametrize("given", [{"dag_id": ["a", "b"]}, {"run_id": 5}])
def test_a_dag_or_run_that_is_no_id_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="takes one id as text"):
        instance().xcom_pull("plain", **given)


def test_what_does_not_exist_is_said_in_the_log_of_the_task(caplog: pytest.LogCaptureFixture) -> None:
    class Nowhere(FakeServices):
        async def call(self, run: int, name: str, args: str) -> str:
            return json.dumps({"pairs": [[]], "hint": "There is no DAG 'frist'."})

    ti = TaskInstance(attempt_of("t"), EmptyOperator(task_id="t"), Nowhere(), without_loop)

    assert ti.xcom_pull("plain", dag_id="frist", default=7) == 7
    assert "xcom_pull: There is no DAG 'frist'." in caplog.text


def test_a_task_instance_knows_its_attempt() -> None:
    ti = instance()

    assert (ti.dag_id, ti.task_id, ti.run_id, ti.map_index) == ("d", "t", "manual__1", -1)
    assert (ti.try_number, ti.max_tries, ti.state) == (2, 3, "running")
    assert ti.key == ("d", "t", "manual__1", 2, -1)
    assert str(ti.logical_date) == "2026-01-02 03:04:05+00:00"
    assert ti.log.name == "aiosched.task"


# -- values in remote storage


class Remote:
    """Services whose values are in remote storage, and what was read there."""

    def __init__(self) -> None:
        self.read: list[str] = []

    async def get_xcoms(self, run: int, refs: Any) -> list[Any]:
        indexes = [range(3) if ref.map_index is None else [ref.map_index] for ref in refs]
        return [[(index, XComPlace(f"{ref.task_id}/{index}", 9)) for index in found] for ref, found in
                zip(refs, indexes, strict=True)]  # fmt: skip

    async def call(self, run: int, name: str, args: str) -> str:
        refs = json.loads(args)["refs"]
        return json.dumps({"pairs": [[[-1, [f"elsewhere/{task_id}", 9]]] for task_id, _, _ in refs]})

    async def load(self, place: XComPlace) -> str:
        self.read.append(place.path)
        return f'"{place.path}"'


def remote_instance(remote: Remote, blocking: Any = without_loop) -> TaskInstance:
    services: Any = remote
    task = EmptyOperator(task_id="t")
    return TaskInstance(attempt_of("t"), task, services, blocking, read_remote=remote.load)


def test_a_value_in_remote_storage_is_read_when_it_is_needed_and_once() -> None:
    remote = Remote()
    ti = remote_instance(remote)

    without_loop(ti.prefetch([XComRef("a"), XComRef("b", map_index=1)]))
    assert remote.read == []
    assert ti.texts_of(XComRef("b", map_index=1)) == [(1, '"b/1"')]
    assert ti.texts_of(XComRef("b", map_index=1)) == [(1, '"b/1"')]
    assert remote.read == ["b/1"]
    assert ti.xcom_pull("a", map_indexes=2) == "a/2"

    assert remote.read == ["b/1", "a/2"]


async def test_a_coroutine_awaits_a_value_in_remote_storage_and_never_blocks_for_it() -> None:
    remote = Remote()
    ti = remote_instance(remote, not_allowed)
    await ti.prefetch([XComRef("a")])

    assert await ti.axcom_pull("a") == ["a/0", "a/1", "a/2"]
    await ti.load_remote()
    assert ti.xcom_pull("a") == ["a/0", "a/1", "a/2"]


async def test_a_value_of_another_dag_in_remote_storage_is_read_too() -> None:
    remote = Remote()

    assert await remote_instance(remote, not_allowed).axcom_pull("a", dag_id="other") == "elsewhere/a"


def test_the_pages_of_a_task_instance_have_addresses() -> None:
    attempt = attempt_of("group.t", map_index=3)
    run = msgspec.structs.replace(attempt.run, dag_id="d", run_id="manual__2026-01-01T00:00:00+00:00")
    attempt = msgspec.structs.replace(attempt, run=run)
    mapped = TaskInstance(attempt, EmptyOperator(task_id="t"), FakeServices(), without_loop)
    plain = instance()
    page = "http://127.0.0.1:8484/dags/d/runs/manual__2026-01-01T00%3A00%3A00%2B00%3A00/tasks/group.t"

    assert mapped.log_url == f"{page}?try={mapped.try_number}&map_index=3"
    assert mapped.mark_success_url == f"{page}?map_index=3"
    assert plain.log_url == f"{plain.mark_success_url}?try={plain.try_number}"


@pytest.mark.parametrize("may_have_run", [False, True])
def test_a_task_finds_out_that_the_database_may_have_lost_a_try_of_it(may_have_run: bool) -> None:
    attempt = msgspec.structs.replace(attempt_of("t"), may_have_run=may_have_run)

    assert TaskInstance(attempt, EmptyOperator(task_id="t"), FakeServices(), not_allowed).may_have_run is may_have_run
