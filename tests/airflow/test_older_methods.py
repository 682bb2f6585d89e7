"""Methods and attributes of Airflow 1.10 and 2 that files still use, and numbers that come as text."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pendulum
import pytest

from aiosched.authoring.runtime.lookups import answering
from aiosched.errors import DagError
from aiosched.executors.dag_test import run_dag_test
from tests.airflow.airflow_builders import load, one_dag

HEAD = """
from datetime import datetime, timedelta
from airflow import DAG
from airflow.models import BaseOperator, Variable
from airflow.operators.bash_operator import BashOperator
"""


@pytest.mark.parametrize("value", ["'3'", "3.0", "'3.0'"])
@pytest.mark.parametrize("where", ["default_args={'retries': VALUE, 'owner': 'a'}", "max_active_runs=VALUE"])
def test_a_number_may_be_text_and_is_warned_of(tmp_path: Path, value: str, where: str) -> None:
    code = f"with DAG('d', start_date=datetime(2024, 1, 1), {where.replace('VALUE', value)}) as dag:\n"
    loaded = load(tmp_path, HEAD + code + f"    BashOperator(task_id='t', bash_command='true', pool_slots={value})\n")

    [dag] = loaded.dags
    assert 3 in (dag.get_task("t").retries, dag.max_active_runs)
    assert dag.get_task("t").pool_slots == 3
    assert any("is taken as 3: write a whole number" in warning for warning in loaded.warnings)


@pytest.mark.parametrize("value", ["'three'", "2.5", "'nan'", "''", "'1e400'"])
def test_what_is_no_whole_number_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(DagError, match=r"retries=.* is wrong: give a whole number"):
        one_dag(tmp_path, HEAD + f"with DAG('d'):\n    BashOperator(task_id='t', bash_command='x', retries={value})\n")


def test_files_of_ours_give_numbers(tmp_path: Path) -> None:
    with pytest.raises(DagError, match="max_active_runs='3' is wrong"):
        load(tmp_path, "from aiosched import DAG\nDAG('d', max_active_runs='3')\n")


async def test_operators_push_and_pull_by_the_context(tmp_path: Path) -> None:
    dag = one_dag(
        tmp_path,
        HEAD
        + """
class Old(BaseOperator):
    def execute(self, context):
        self.xcom_push(context, key="rows", value=[1, 2])
        return self.xcom_pull(context, task_ids=self.task_id, key="rows")

with DAG("d", schedule_interval=None, start_date=datetime(2024, 1, 1)) as dag:
    Old(task_id="old")
""",
    )

    run = await run_dag_test(dag)

    assert run.xcoms["old"] == {"rows": [1, 2], "return_value": [1, 2]}


async def test_a_pull_without_a_key_reads_what_there_is(tmp_path: Path) -> None:
    dag = one_dag(
        tmp_path,
        HEAD
        + """
class Give(BaseOperator):
    def execute(self, context):
        self.xcom_push(context, key="rows", value=1)
        self.xcom_push(context, key="files", value=2)
        own = context["ti"].xcom_pull(key=None)
        return None if self.task_id == "pushed" else own

with DAG("d", schedule_interval=None, start_date=datetime(2024, 1, 1)) as dag:
    pull = "{{ ti.xcom_pull('pushed', key=None) }} {{ ti.xcom_pull(key=None, task_ids=['returned', 'none']) }}"
    [Give(task_id="pushed"), Give(task_id="returned")] >> BashOperator(task_id="take", bash_command=f"echo {pull}")
""",
    )

    run = await run_dag_test(dag)

    assert run.xcoms["returned"]["return_value"] == 2
    assert run.xcoms["take"]["return_value"] == "2 [2, None]"


@pytest.mark.parametrize(
    ("schedule", "before", "after"),
    [
        ("0 6 * * *", pendulum.datetime(2024, 2, 28, 6), pendulum.datetime(2024, 3, 1, 6)),
        (timedelta(hours=6), pendulum.datetime(2024, 2, 29), pendulum.datetime(2024, 2, 29, 12)),
        ("0 0 29 2 *", pendulum.datetime(2020, 2, 29), pendulum.datetime(2028, 2, 29)),
        (None, None, None),
        ("@once", None, None),
    ],
)
@pytest.mark.parametrize("dialect", ["from airflow import DAG", "from aiosched import DAG"])
def test_a_dag_tells_the_dates_around_one(tmp_path: Path, schedule: Any, before: Any, after: Any, dialect: str) -> None:
    head = f"from datetime import datetime\nimport datetime as dt\n{dialect}\n"
    shown = repr(schedule).replace("datetime.", "dt.")
    dag = one_dag(tmp_path, f"{head}d = DAG('d', schedule={shown}, start_date=datetime(2020, 1, 1))\n")
    at = {"0 6 * * *": pendulum.datetime(2024, 2, 29, 6), timedelta(hours=6): pendulum.datetime(2024, 2, 29, 6)}
    date = at.get(schedule, pendulum.datetime(2024, 2, 29))

    assert dag.previous_schedule(date) == before
    assert dag.following_schedule(date) == after
    assert (dag.schedule_interval, dag.concurrency) == (dag.schedule, dag.max_active_tasks)


CAUGHT = """
from airflow import DAG
from airflow.configuration import conf
from airflow.exceptions import AirflowConfigException, AirflowException, AirflowNotFoundException
from airflow.hooks.base import BaseHook
from airflow.models import Variable
import json, os

os.environ["AIRFLOW__OWN__NUMBER"] = "many"
os.environ["AIRFLOW_VAR_BROKEN"] = "{"
caught = []
for read, errors in (
    (lambda: Variable.get("nowhere"), KeyError),
    (lambda: Variable.get("broken", deserialize_json=True), ValueError),
    (lambda: BaseHook.get_connection("nowhere"), AirflowNotFoundException),
    (lambda: conf.get("own", "nothing"), AirflowConfigException),
    (lambda: conf.get("own", "nothing"), AirflowException),
    (lambda: conf.getint("own", "number"), AirflowConfigException),
    (lambda: conf.getboolean("own", "number"), AirflowConfigException),
    (lambda: conf.getfloat("own", "number"), AirflowConfigException),
):
    try:
        read()
    except errors as error:
        caught.append(str(error))
dag = DAG("d", schedule=None, tags=[str(len(caught))], description=caught[0])
"""


def test_what_is_missing_or_wrong_is_caught_as_in_airflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AIRFLOW__OWN__NUMBER", "AIRFLOW_VAR_BROKEN"):
        monkeypatch.setenv(name, "")  # the file sets them
    with answering(lambda kind, key: {"value": None, "database": False}):
        dag = one_dag(tmp_path, CAUGHT)

    assert list(dag.tags) == ["8"]
    assert dag.description == (
        "There is no variable 'nowhere' here, because no database is used here. Set AIOSCHED_VAR_NOWHERE in the "
        "environment."
    )
