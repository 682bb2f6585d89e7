"""Classes of users that derive from aiosched's and pass on what they do not know."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiosched.errors import DagError
from tests.airflow.airflow_builders import one_dag

HEAD = """
from datetime import datetime
from airflow import DAG
from airflow.models import BaseOperator
from airflow.operators.python import PythonOperator
from airflow.utils.task_group import TaskGroup

START = datetime(2024, 1, 1)

class TeamDAG(DAG):
    def __init__(self, *args, team="none", **kw):
        super().__init__(*args, tags=[team], **kw)

class DailyDAG(DAG):
    def __init__(self, dag_id, concurrency=3):
        super().__init__(dag_id, schedule_interval="@daily", start_date=START, concurrency=concurrency)

class Section(TaskGroup):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)

class Python(PythonOperator):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
"""


def test_what_variadic_constructors_pass_on_is_taken(tmp_path: Path) -> None:
    dag = one_dag(
        tmp_path,
        HEAD
        + """
with TeamDAG("d", team="a", start_date=START, schedule_interval="@hourly", concurrency=7) as dag:
    with Section("s", tooltip="x", ui_color="red"):
        Python(task_id="t", python_callable=print, retries="2", provide_context=True)
""",
    )

    assert (dag.tags, dag.schedule, dag.max_active_tasks, dag.task_ids) == (["a"], "@hourly", 7, ["s.t"])
    assert dag.get_task("s.t").retries == 2


def test_old_names_are_taken_from_the_subclass_itself(tmp_path: Path) -> None:
    dag = one_dag(
        tmp_path, HEAD + "with DailyDAG('d', concurrency=5):\n    Python(task_id='t', python_callable=print)\n"
    )

    assert (dag.schedule, dag.max_active_tasks) == ("@daily", 5)


def test_a_subclass_of_a_subclass_and_positions(tmp_path: Path) -> None:
    code = """
class Sub(TeamDAG):
    def __init__(self, name, /, *rest, **kw):
        super().__init__(f"team_{name}", *rest, **kw)

with Sub("x", "about it", "@weekly", START):
    Python(task_id="t", python_callable=print)
"""
    dag = one_dag(tmp_path, HEAD + code)

    assert (dag.dag_id, dag.description, dag.schedule) == ("team_x", "about it", "@weekly")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("TeamDAG('d', start_date=START, max_active_run=1)", "has no parameter 'max_active_run'"),
        ("TeamDAG(team='a')", "TeamDAG needs 'dag_id'"),
        ("DailyDAG()", "DailyDAG needs 'dag_id'"),
        ("DailyDAG('d', tags=[])", "has no parameter 'tags'"),
    ],
)
def test_what_nobody_takes_is_named(tmp_path: Path, call: str, message: str) -> None:
    with pytest.raises(DagError, match=message):
        one_dag(tmp_path, HEAD + call + "\n")


def test_a_mixin_and_a_group_take_their_parts(tmp_path: Path) -> None:
    code = """
class Named:
    def __init__(self, *args, label_of, **kwargs):
        self.label_of = label_of
        super().__init__(*args, **kwargs)

class Workflow(Named, TaskGroup):
    def __init__(self, connection, **kwargs):
        self.level = kwargs.pop("level")
        super().__init__(label_of=connection, **kwargs)

with DAG("d", start_date=START):
    with Workflow("c", group_id="wf", level=2) as group:
        Python(task_id=f"{group.label_of}_{group.level}", python_callable=print)
"""

    assert one_dag(tmp_path, HEAD + code).task_ids == ["wf.c_2"]
