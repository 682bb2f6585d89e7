"""`ExternalTaskMarker` in a DAG file, and in a world. Source: the semantics reference, section 28.6."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from aiosched import DAG, ExternalTaskMarker, PythonOperator
from aiosched.authoring.dag.serialize import to_spec
from aiosched.core.graph.spec import ExternalMark, TaskSpec
from aiosched.errors import DagError
from aiosched.testing import World

DAY = datetime(2026, 1, 1, tzinfo=UTC)


def spec_of(**options: Any) -> TaskSpec:
    with DAG("d") as dag:
        ExternalTaskMarker(**({"task_id": "m", "external_dag_id": "o", "external_task_id": "t"} | options))
    return to_spec(dag, now=DAY).tasks[0]


def test_a_marker_needs_no_worker() -> None:
    spec = spec_of(recursion_depth=3)

    assert spec.is_empty
    assert spec.marks == ExternalMark(dag_id="o", task_id="t", recursion_depth=3)


def test_a_marker_may_name_a_date() -> None:
    assert spec_of(logical_date="2026-01-01T00:00:00+00:00").marks == ExternalMark(
        dag_id="o", task_id="t", logical_date=DAY
    )


@pytest.mark.parametrize(
    "options",
    [{"logical_date": "{{ macros.ds_add(ds, 1) }}"}, {"external_task_id": "{{ params.task }}"}],
    ids=["date", "task"],
)
def test_a_marker_with_templates_is_a_task_that_stores_what_it_marks(options: dict[str, str]) -> None:
    spec = spec_of(**options)

    assert not spec.is_empty
    assert spec.marks == ExternalMark(is_noted=True)


def test_a_marker_without_a_known_date_is_refused() -> None:
    with pytest.raises(DagError, match="logical_date='tomorrow' is not a date"):
        spec_of(logical_date="tomorrow")


def test_a_mapped_marker_stores_what_each_instance_marks() -> None:
    with DAG("d") as dag:
        ExternalTaskMarker.partial(task_id="m", external_dag_id="o", recursion_depth=2).expand(
            external_task_id=["a", "b"]
        )

    spec = to_spec(dag, now=DAY).tasks[0]
    assert spec.marks == ExternalMark(is_noted=True, recursion_depth=2)
    assert not spec.is_empty


@pytest.mark.parametrize("date", ["{{ logical_date.isoformat() }}", "{{ ts }}"], ids=["default", "templates"])
async def test_in_a_world_clearing_follows_a_marker(date: str) -> None:
    with DAG("parent") as parent:
        ExternalTaskMarker(task_id="m", external_dag_id="child", external_task_id="b", logical_date=date)
    with DAG("child") as child:
        tasks = [PythonOperator(task_id=name, python_callable=print) for name in "abc"]
        tasks[0] >> tasks[1] >> tasks[2]
    world = World(now=DAY)
    world.add(parent, child)
    for dag_id in ("parent", "child"):
        world.trigger(dag_id, run_id="r", logical_date=DAY)
    await world.run_until_idle()

    world.clear("parent", ["r"])
    await world.run_until_idle()

    tries = {name: world.task("child", "r", name).try_number for name in "abc"}
    assert tries == {"a": 1, "b": 2, "c": 2}
