"""Whose defaults the DAGs of a file have: by what it imports, and by the settings."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from aiosched.airflow.dialect import imports_of
from aiosched.authoring.base.settings import AuthoringDefaults
from aiosched.config import Settings
from aiosched.core.graph.spec import encode_spec
from aiosched.core.timetables import (
    AnyTimetable,
    CronDataIntervalTimetable,
    CronTriggerTimetable,
    DeltaDataIntervalTimetable,
    DeltaTriggerTimetable,
    NullTimetable,
)
from aiosched.errors import DagError
from tests.airflow.airflow_builders import load, one_dag, using

OLD = "from airflow import DAG\n"
SDK = "from airflow.sdk import DAG\n"
OURS = "from aiosched import DAG\n"
DAILY = "DAG('d', schedule='0 0 * * *', start_date='2026-01-01')"


@pytest.mark.parametrize(
    ("source", "generation"),
    [
        ("from airflow import DAG", 2),
        ("import airflow", 2),
        ("from airflow.models import DAG\nfrom airflow.operators.bash_operator import BashOperator", 2),
        ("from airflow.sdk import DAG", 3),
        ("from airflow.sdk import DAG\nfrom airflow.configuration import conf", 3),
        ("from airflow.sdk.definitions.dag import DAG", 3),
        ("from airflow import DAG\nfrom airflow.providers.standard.operators.bash import BashOperator", 2),
        ("try:\n    from airflow.sdk import DAG\nexcept ImportError:\n    from airflow import DAG", 2),
        ("try:\n    from airflow.sdk import DAG\nexcept ImportError:\n    DAG = None", 3),
        ("if TYPE_CHECKING:\n    from airflow.sdk import Context\nfrom airflow import DAG", 2),
        ("def f():\n    from airflow.sdk import Variable\nfrom airflow.sdk import DAG", 3),
        ("from aiosched import DAG\nfrom airflow.providers.http.operators.http import HttpOperator", None),
    ],
)
def test_the_generation_is_that_of_the_names(source: str, generation: int | None) -> None:
    found = imports_of(source)

    assert found.airflow
    assert found.generation == generation


@pytest.mark.parametrize(
    "source", ["from aiosched import DAG", "'''\nfrom airflow import DAG\n'''", "import airflowish", "def"]
)
def test_other_files_do_not_speak_the_dialect(source: str) -> None:
    assert not imports_of(source).airflow


@pytest.mark.parametrize(
    ("code", "timetable", "catchup"),
    [
        (OLD + DAILY, CronDataIntervalTimetable, True),
        (OLD + DAILY.replace("'0 0 * * *'", "'@daily'"), CronDataIntervalTimetable, True),
        (OLD + DAILY.replace("'0 0 * * *'", "__import__('datetime').timedelta(1)"), DeltaDataIntervalTimetable, True),
        (OLD + "DAG('d', start_date='2026-01-01')", DeltaDataIntervalTimetable, True),
        (OLD + "DAG('d', schedule_interval=None, start_date='2026-01-01')", NullTimetable, True),
        (OLD + "DAG('d', schedule_interval=None)", NullTimetable, False),
        (OLD + "DAG('d')", NullTimetable, False),  # Airflow 2 refuses it
        (OLD + "DAG('d', schedule='@daily')", CronTriggerTimetable, False),
        (OLD + "DAG('d', default_args={'start_date': '2026-01-01'})", DeltaDataIntervalTimetable, True),
        (OLD + DAILY.replace(")", ", catchup=False)"), CronDataIntervalTimetable, False),
        (SDK + DAILY, CronTriggerTimetable, False),
        (SDK + DAILY.replace("'0 0 * * *'", "__import__('datetime').timedelta(1)"), DeltaTriggerTimetable, False),
        (SDK + "DAG('d', start_date='2026-01-01')", NullTimetable, False),
        (OURS + DAILY, CronDataIntervalTimetable, False),
        (OURS + "import airflow\n" + DAILY, CronDataIntervalTimetable, False),
    ],
)
def test_each_generation_has_its_defaults(
    tmp_path: Path, code: str, timetable: type[AnyTimetable], catchup: bool
) -> None:
    dag = one_dag(tmp_path, code.replace("DAG('d'", "dag = DAG('d'"))

    assert isinstance(dag.timetable, timetable)
    assert dag.catchup is catchup


def test_a_dag_of_airflow_2_without_schedule_and_start_date_runs_when_it_is_triggered(tmp_path: Path) -> None:
    loaded = load(tmp_path, OLD + "dag = DAG('d', tags=['a'])")

    assert isinstance(loaded.dags[0].to_spec().timetable, NullTimetable)
    assert any("only when it is triggered" in warning for warning in loaded.warnings)


def test_a_dag_of_airflow_2_without_a_schedule_runs_daily(tmp_path: Path) -> None:
    dag = one_dag(tmp_path, OLD + "dag = DAG('d', start_date='2026-01-01')")

    assert dag.schedule == timedelta(days=1)


@pytest.mark.parametrize(
    ("setting", "code", "timetable", "catchup"),
    [("3", OLD, CronTriggerTimetable, False), ("2", SDK, CronDataIntervalTimetable, True)],
)
def test_the_setting_overrides_the_guess(
    tmp_path: Path, setting: str, code: str, timetable: type[AnyTimetable], catchup: bool
) -> None:
    with using(AuthoringDefaults(airflow_defaults=setting)):
        dag = one_dag(tmp_path, f"{code}dag = {DAILY}")

    assert isinstance(dag.timetable, timetable)
    assert dag.catchup is catchup


def test_catchup_by_default_counts_where_it_is_set(tmp_path: Path) -> None:
    settings = Settings.model_validate({"scheduler": {"catchup_by_default": False}})

    with using(AuthoringDefaults.of(settings)):
        dag = one_dag(tmp_path, f"{OLD}dag = {DAILY}")

    assert not dag.catchup


@pytest.mark.parametrize(
    ("code", "options", "is_guess"),
    [
        (OLD + DAILY, {}, True),
        (OLD + "from airflow.operators.dummy import DummyOperator\n" + DAILY, {}, False),  # no Airflow 3 has that
        (SDK + DAILY, {}, False),
        (OURS + DAILY, {}, False),
        (OLD + DAILY.replace(")", ", catchup=True)"), {}, False),
        (OLD + DAILY.replace(")", ", catchup=False)"), {}, False),
        (OLD + DAILY, {"airflow_defaults": "2"}, False),
        (OLD + DAILY, {"catchup_is_set": True, "catchup": True}, False),
    ],
)
def test_catching_up_is_a_guess_if_nobody_says_it(
    tmp_path: Path, code: str, options: dict[str, Any], is_guess: bool
) -> None:
    with using(AuthoringDefaults(**options)):
        spec = one_dag(tmp_path, code.replace("DAG('d'", "dag = DAG('d'")).to_spec()

    assert spec.catchup_is_guess is is_guess
    assert (b"catchup_is_guess" in encode_spec(spec)) is is_guess


def test_a_schedule_of_airflow_2_needs_a_start_date_if_it_is_said_to_be_one(tmp_path: Path) -> None:
    with using(AuthoringDefaults(airflow_defaults="2")), pytest.raises(DagError, match="no start_date"):
        one_dag(tmp_path, OLD + "dag = DAG('d', schedule_interval='@daily')").to_spec()


def test_the_spec_names_whose_defaults_it_has_and_that_of_other_files_is_as_before(tmp_path: Path) -> None:
    old, sdk, ours = (one_dag(tmp_path, f"{code}dag = {DAILY}").to_spec() for code in (OLD, SDK, OURS))

    assert (old.defaults_of, sdk.defaults_of, ours.defaults_of) == ("Airflow 2", "Airflow 3", "")
    assert b"defaults_of" not in encode_spec(ours)


def test_the_file_decides_that_builds_the_object_not_the_one_that_imports_it(tmp_path: Path) -> None:
    (tmp_path / "factory.py").write_text(
        "from airflow import DAG\ndef make():\n    return DAG('made', schedule_interval=None)\n"
    )

    loaded = load(tmp_path, "from aiosched import DAG\nimport factory\nmade = factory.make()\nDAG('own', catchup=True)")
    assert [dag.dag_id for dag in loaded.dags] == ["made"]
    with pytest.raises(DagError, match="Use 'schedule' instead"):
        load(
            tmp_path,
            "from aiosched import DAG\nimport airflow_builders\nDAG('own', schedule_interval=None)",
            "other.py",
        )
