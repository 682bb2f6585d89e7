"""Which other DAGs a DAG starts or waits for: read from what authors write, stored by parsing."""

from __future__ import annotations

from typing import Any

from aiosched import DAG, ExternalTaskMarker, ExternalTaskSensor, TriggerDagRunOperator, task
from aiosched.clock import FakeClock
from aiosched.core.graph.dependencies import DagDependency, DependencyKind, dag_dependencies
from aiosched.core.graph.spec import DagSpec, encode_spec
from aiosched.db.server.engine import Database
from aiosched.parsing.result import parsed_dag
from aiosched.parsing.store import remove_files, store_results
from tests.parsing.builders import a_result


def a_spec() -> DagSpec:
    class OwnSensor(ExternalTaskSensor):
        pass

    with DAG("sales", schedule=None, params={"which": "x"}) as dag:

        @task
        def choose() -> str:
            return "x"

        TriggerDagRunOperator(task_id="start", trigger_dag_id="report")
        TriggerDagRunOperator(task_id="by_template", trigger_dag_id="{{ params.which }}")
        TriggerDagRunOperator(task_id="by_output", trigger_dag_id=choose())
        TriggerDagRunOperator.partial(task_id="each").expand(trigger_dag_id=["us", "{{ ds }}"])
        OwnSensor(task_id="wait", external_dag_id="load", external_task_id="end")
        ExternalTaskMarker(task_id="mark", external_dag_id="report", external_task_id="begin")
    return dag.to_spec()


EXPECTED = {
    ("triggers", "start", "report"),
    ("triggers", "by_template", ""),
    ("triggers", "by_output", ""),
    ("triggers", "each", "us"),
    ("triggers", "each", ""),
    ("waits_for", "wait", "load"),
    ("marks", "mark", "report"),
}


def test_templates_and_outputs_are_unknown_and_not_guessed() -> None:
    found = dag_dependencies(a_spec())

    assert {(str(each.kind), each.task_id, each.other_dag_id) for each in found} == EXPECTED
    assert DagDependency(DependencyKind.TRIGGERS, "start", "report") in found


async def stored(db: Database) -> set[tuple[Any, ...]]:
    return {tuple(row) for row in await db.fetch("SELECT kind, task_id, other_dag_id FROM dag_dependency")}


async def test_they_are_stored_with_the_dag_and_go_with_its_file(db: Database, clock: FakeClock) -> None:
    spec = a_spec()
    without = DagSpec(dag_id="sales")
    seen = []
    for number, each in enumerate((spec, without, spec)):
        async with db.transaction() as conn:
            result = a_result("a.py", parsed_dag(encode_spec(each), each), digest=str(number))
            await store_results(conn, [result], now=clock.now(), paused_at_creation=False)
        seen.append(await stored(db))
    async with db.transaction() as conn:
        await remove_files(conn, ["a.py"])

    assert seen == [EXPECTED, set(), EXPECTED]
    assert await stored(db) == set()
