"""What `import aiosched` gives, and what it does not do."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import aiosched
from aiosched import errors, exceptions


def test_every_public_name_can_be_had_and_is_known_to_type_checkers() -> None:
    tree = ast.parse(Path(aiosched.__file__).read_text(encoding="utf-8"))
    checked = {
        alias.name
        for node in tree.body
        if isinstance(node, ast.If)
        for statement in node.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }

    provided = {name for names in aiosched._MODULES.values() for name in names.split()}

    assert checked == set(aiosched.__all__) - {"__version__"} == provided
    assert set(aiosched.__all__) <= set(dir(aiosched))
    for name in aiosched.__all__:
        assert getattr(aiosched, name) is not None


def test_trigger_rules_can_be_written_by_their_names() -> None:
    with aiosched.DAG("d") as dag:
        aiosched.EmptyOperator(task_id="a") >> aiosched.EmptyOperator(
            task_id="b", trigger_rule=aiosched.TriggerRule.ALL_DONE
        )

    assert dag.to_spec().tasks[1].trigger_rule == "all_done"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Dag'"):
        getattr(aiosched, "Dag")  # noqa: B009 - its error is what is asked for


def test_importing_aiosched_imports_nothing_heavy() -> None:
    program = "import sys, aiosched; print(sorted(m for m in sys.modules if m.startswith('aiosched.') or '.' not in m))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert loaded.count("'aiosched.") == 2
    assert "'aiosched.lazy'" in loaded
    assert "'aiosched.version'" in loaded
    for name in ("jinja2", "pendulum", "msgspec", "pydantic", "sqlalchemy"):
        assert f"'{name}" not in loaded


def test_building_a_dag_needs_no_templates() -> None:
    program = (
        "import sys\nfrom aiosched import DAG, task, BashOperator\n"
        "with DAG('d') as d:\n    BashOperator(task_id='t', bash_command='{{ ds }}')\n"
        "d.to_spec()\nprint([m for m in ('jinja2', 'pydantic', 'sqlalchemy') if m in sys.modules])"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert loaded.strip() == "[]"


@pytest.mark.parametrize(
    ("airflow", "ours"),
    [
        ("AirflowException", errors.AioschedError),
        ("AirflowSkipException", errors.SkipTask),
        ("AirflowFailException", errors.FailTask),
        ("AirflowRescheduleException", errors.RescheduleTask),
        ("AirflowSensorTimeout", errors.SensorTimeout),
        ("AirflowTaskTimeout", errors.TaskTimeout),
        ("DuplicateTaskIdFound", errors.DuplicateTaskError),
        ("AirflowDagCycleException", errors.DagCycleError),
        ("ParamValidationError", errors.ParamError),
    ],
)
def test_airflows_names_of_errors_are_ours(airflow: str, ours: type[Exception]) -> None:
    assert getattr(exceptions, airflow) is ours


def test_the_names_of_errors_are_complete() -> None:
    public = {name for name in vars(exceptions) if name[0].isupper()}

    assert set(exceptions.__all__) == public


@pytest.mark.parametrize(
    ("imported", "kind"),
    [
        ("from aiosched import BaseOperator", "BaseOperator"),
        ("from aiosched.authoring.operators.bash import BashOperator", "BashOperator"),
        ("from aiosched.airflow.finder import install\ninstall('compat')\nfrom airflow.sdk import BaseSensorOperator",
         "BaseSensorOperator"),
    ],
)  # fmt: skip
def test_an_operator_can_be_mapped_whatever_else_was_imported(imported: str, kind: str) -> None:
    program = f"{imported}\nclass Own({kind}): ...\nprint(Own.partial(task_id='a').name)"

    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert shown == "Own(task_id='a')\n"
