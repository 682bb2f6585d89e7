"""Parameters of Airflow 1.10 to 3: taken under a new name, dropped, or refused with a remedy."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import aiosched
from aiosched.airflow import parameters
from aiosched.authoring.base.signatures import init_parameters
from aiosched.authoring.dag.contents import DagContents
from aiosched.authoring.operators.bash import DecoratedBashOperator
from aiosched.authoring.operators.python_env import IsolatedPythonOperator
from aiosched.errors import DagError
from tests.airflow.airflow_builders import load, one_dag

CLASSES: dict[str, type] = {
    "DagContents": DagContents,
    "DecoratedBashOperator": DecoratedBashOperator,
    "IsolatedPythonOperator": IsolatedPythonOperator,
}
HEAD = "from airflow import DAG\nfrom airflow.operators.bash_operator import BashOperator\n"
TASK = (
    HEAD + "with DAG('d', schedule_interval=None) as dag:\n    t = BashOperator(task_id='t', bash_command='true', {})\n"
)


def class_of(kind: str) -> type:
    return CLASSES.get(kind) or getattr(aiosched, kind)


@pytest.mark.parametrize(
    ("kind", "old", "new"), [(kind, old, new) for kind, row in parameters.RENAMED.items() for old, new in row.items()]
)
def test_each_renamed_parameter_exists_under_its_new_name_only(kind: str, old: str, new: str) -> None:
    names = {parameter.name for parameter in init_parameters(class_of(kind))}

    assert new in names
    assert old not in names
    assert parameters.translated(kind, {old: 5}, None) == {new: 5}


@pytest.mark.parametrize("kind", sorted({*parameters.DROPPED, *parameters.REFUSED, *parameters.SPECIAL}))
def test_each_row_is_about_a_class_of_aiosched(kind: str) -> None:
    assert isinstance(class_of(kind), type)


@pytest.mark.parametrize(
    ("kind", "name", "remedy"),
    [(kind, name, remedy) for kind, row in parameters.REFUSED.items() for name, remedy in row.items()],
)
def test_what_would_change_results_is_refused_with_the_remedy(kind: str, name: str, remedy: str) -> None:
    with pytest.raises(DagError, match=re.escape(remedy)):
        parameters.translated(kind, {name: "x"}, None)
    assert parameters.translated(kind, {name: None}, None) == {}


def test_parameters_of_dags_are_translated(tmp_path: Path) -> None:
    dag = one_dag(
        tmp_path,
        HEAD + "dag = DAG('d', schedule_interval='@hourly', start_date='2026-01-01', concurrency=7, fail_stop=True, "
        "default_view='graph', orientation='LR', full_filepath='x')",
    )

    assert (dag.timetable.summary, dag.max_active_tasks, dag.fail_fast) == ("@hourly", 7, True)


@pytest.mark.filterwarnings("ignore:.*both are given")
@pytest.mark.parametrize(
    ("kind", "given", "name", "value"),
    [
        ("DagContents", {"concurrency": 2, "max_active_tasks": 5}, "max_active_tasks", 2),
        ("DagContents", {"concurrency": None, "max_active_tasks": 5}, "max_active_tasks", 5),
        ("BaseOperator", {"task_concurrency": 2, "max_active_tis_per_dag": 5}, "max_active_tis_per_dag", 5),
    ],
)
def test_of_old_and_new_name_of_a_limit_that_of_airflow_2_is_used(
    kind: str, given: dict[str, Any], name: str, value: int
) -> None:
    assert parameters.translated(kind, given, None) == {name: value}


def test_a_schedule_under_two_names_is_an_error() -> None:
    with pytest.raises(DagError, match="are the same parameter, and both are given"):
        parameters.translated("DagContents", {"schedule_interval": "@daily", "schedule": "@hourly"}, None)


def test_parameters_of_tasks_are_translated_also_in_default_args(tmp_path: Path) -> None:
    dag = one_dag(
        tmp_path,
        HEAD + "with DAG('d', schedule_interval=None, default_args={'task_concurrency': 2}) as dag:\n"
        "    a = BashOperator(task_id='a', bash_command='true', xcom_push=False)\n"
        "    b = BashOperator(task_id='b', bash_command='true', task_concurrency=3, skip_exit_code=7, dag=dag)\n",
    )

    assert [task.max_active_tis_per_dag for task in dag.tasks] == [2, 3]
    assert [task.do_xcom_push for task in dag.tasks] == [False, True]
    assert vars(dag.task("b"))["skip_on_exit_code"] == (7,)


def test_parameters_of_mapped_tasks_are_translated(tmp_path: Path) -> None:
    dag = one_dag(
        tmp_path,
        HEAD + "with DAG('d', schedule_interval=None) as dag:\n"
        "    BashOperator.partial(task_id='t', task_concurrency=4).expand(bash_command=['true', 'false'])\n",
    )

    assert dag.task("t").max_active_tis_per_dag == 4


def test_a_class_of_the_author_passes_old_parameters_on(tmp_path: Path) -> None:
    dag = one_dag(
        tmp_path,
        HEAD + "from airflow.utils.decorators import apply_defaults\n"
        "class Mine(BashOperator):\n"
        "    @apply_defaults\n"
        "    def __init__(self, word, *args, **kwargs):\n"
        "        super().__init__(bash_command=word, skip_exit_code=3, *args, **kwargs)\n"
        "with DAG('d', schedule_interval=None) as dag:\n"
        "    Mine(task_id='t', word='true', provide_context=True)\n",
    )

    assert vars(dag.task("t"))["bash_command"] == "true"


def test_a_value_under_both_names_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DagError, match="the same parameter"):
        load(tmp_path, HEAD + "DAG('d', schedule='@daily', schedule_interval='@hourly')")


def test_the_author_is_warned_once_a_file_of_what_has_no_effect(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        HEAD + "with DAG('d', schedule_interval=None, rerun_with_latest_version=True) as dag:\n"
        "    for i in range(3):\n"
        "        BashOperator(task_id=f't{i}', bash_command='true', resources={'cpus': 1})\n",
    )

    assert sum("resources" in warning for warning in loaded.warnings) == 1
    assert sum("rerun_with_latest_version" in warning for warning in loaded.warnings) == 1


def test_a_misspelt_parameter_stays_an_error(tmp_path: Path) -> None:
    with pytest.raises(DagError, match="Did you mean 'retries'"):
        load(tmp_path, TASK.format("retrys=1"))


@pytest.mark.parametrize("argument", ["task_concurrency=1", "provide_context=True"])
def test_files_that_import_aiosched_only_are_strict(tmp_path: Path, argument: str) -> None:
    code = (
        TASK.replace("from airflow", "from aiosched").replace(".operators.bash_operator", "").replace("_interval", "")
    )
    with pytest.raises(DagError, match="has no parameter"):
        load(tmp_path, code.format(argument))


MAILS: list[tuple[str, int, int]] = [
    ("", 0, 0),
    ("email='a@example.org'", 1, 1),
    ("email=['a@example.org'], email_on_retry=False", 1, 0),
    ("email='a@example.org', email_on_failure=False", 0, 1),
    ("email_on_failure=True", 0, 0),
]


@pytest.mark.parametrize(("arguments", "failure", "retry"), MAILS)
def test_email_makes_mails_of_failures_and_retries(tmp_path: Path, arguments: str, failure: int, retry: int) -> None:
    loaded = load(tmp_path, TASK.format(arguments))
    task: Any = loaded.dags[0].task("t")

    assert (len(task.on_failure_callback), len(task.on_retry_callback)) == (failure, retry)
    assert loaded.warnings == []


def test_email_options_of_default_args_count(tmp_path: Path) -> None:
    args = "{'email': ['a@example.org'], 'email_on_failure': True, 'email_on_retry': False}"
    dag = one_dag(
        tmp_path, TASK.format("").replace("schedule_interval=None", f"schedule_interval=None, default_args={args}")
    )
    task: Any = dag.task("t")

    assert (len(task.on_failure_callback), len(task.on_retry_callback)) == (1, 0)
    assert dag.to_spec().tasks[0].has_failure_callback


def test_a_command_that_a_function_returns_is_a_template_as_in_airflow(tmp_path: Path) -> None:
    dag = one_dag(
        tmp_path,
        "from airflow.sdk import DAG, task\nwith DAG('d', schedule=None) as dag:\n    @task.bash\n"
        "    def said():\n        return 'echo {{ ds }}'\n    said()\n"
        "    @task.bash(render_returned=False)\n    def plain():\n        return 'echo'\n    plain()\n",
    )

    assert [dag.task(name).render_returned for name in ("said", "plain")] == [True, False]
