"""Names that provider packages had once: their successors, or what a file is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiosched import DAG
from aiosched.airflow.tables import FOLDER, REMOVED, removed
from aiosched.authoring.operators.sql import SQLExecuteQueryOperator
from aiosched.errors import DagError
from tests.airflow.airflow_builders import one_dag
from tests.airflow.test_airflow_finder import install, provider, python

PG = "from airflow.providers.postgres.operators.postgres import PostgresOperator\n"
OLD = """
from airflow.providers.microsoft.mssql.operators.mssql import MsSqlOperator
from airflow.providers.sqlite.operators.sqlite import SqliteOperator
from airflow.operators.postgres_operator import PostgresOperator as Older
"""


def dag_of(folder: Path, code: str, tasks: str) -> DAG:
    return one_dag(folder, f"from airflow import DAG\n{code}with DAG('d', schedule=None) as dag:\n    {tasks}\n")


def test_the_table_is_sorted_and_has_each_name_once() -> None:
    rows = [line.split("\t") for line in (FOLDER / REMOVED).read_text().splitlines()[1:]]

    assert [row[:2] for row in rows] == sorted(row[:2] for row in rows)
    assert len({tuple(row[:2]) for row in rows}) == len(rows) > 300
    assert all(home == "none" or home.startswith("airflow.providers.") for _, _, home, _, _ in rows)
    assert [row for row in rows if row[2] == "none" and row[3] != "different"] == []
    homes = {tuple(home.split(":")) for _, _, home, _, _ in rows}
    assert [home for home in homes if home[-1] in removed().get(home[0], {})] == [], "a successor that is gone as well"


def test_an_old_class_of_sql_is_the_class_of_today_with_its_old_parameters(tmp_path: Path) -> None:
    tasks = "PostgresOperator(task_id='t', sql='select 1', postgres_conn_id='c', database='x', retries=2)"
    task = dag_of(tmp_path, PG, tasks).get_task("t")

    assert isinstance(task, SQLExecuteQueryOperator)
    assert (task.conn_id, task.database, task.retries) == ("c", "x", 2)
    assert task.task_type == "PostgresOperator"


def test_its_connection_has_the_old_default_and_comes_from_default_args(tmp_path: Path) -> None:
    tasks = (
        "[c(task_id=c.__name__, sql='select 1') for c in (MsSqlOperator, SqliteOperator)]; Older(task_id='o', sql='')"
    )
    dag = dag_of(tmp_path, OLD, tasks.replace("c(task_id", "c(default_args={'mssql_conn_id': 'm'}, task_id"))

    found = [dag.get_task(task_id).conn_id for task_id in ("MsSqlOperator", "SqliteOperator", "o")]  # type: ignore[attr-defined]
    assert found == ["m", "sqlite_default", "postgres_default"]


def test_an_old_class_can_be_mapped_and_derived_from(tmp_path: Path) -> None:
    code = (
        PG
        + "class Mine(PostgresOperator):\n    def __init__(self, **kw):\n"
        + "        super().__init__(postgres_conn_id='m', **kw)\n"
    )
    tasks = (
        "Mine(task_id='t', sql='a'); PostgresOperator.partial(task_id='p', postgres_conn_id='q').expand(sql=['a', 'b'])"
    )
    dag = dag_of(tmp_path, code, tasks)

    assert dag.get_task("t").conn_id == "m"  # type: ignore[attr-defined]
    assert dag.get_task("p").task_type == "PostgresOperator"


def test_what_only_the_real_operator_can_do_is_refused_by_the_basics(tmp_path: Path) -> None:
    code = "from airflow.providers.snowflake.operators.snowflake import SnowflakeOperator\n"

    with pytest.raises(DagError, match="providers install apache-airflow-providers-common-sql"):
        dag_of(tmp_path, code, "SnowflakeOperator(task_id='t', sql='x', warehouse='w')")
    with pytest.raises(DagError, match="has no parameter 'runtime_parameters'"):
        dag_of(tmp_path, PG, "PostgresOperator(task_id='t', sql='x', runtime_parameters={'a': 1})")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "from airflow.providers.google.cloud.operators.bigquery import BigQueryExecuteQueryOperator",
            ["BigQueryInsertJobOperator", "other parameters", "apache-airflow-providers-google==10."],
        ),
        (
            "from airflow.contrib.operators.bigquery_operator import BigQueryOperator",
            ["BigQueryInsertJobOperator", "apache-airflow-providers-google==10."],
        ),
        (
            "from airflow.providers.apache.hdfs.sensors.hdfs import HdfsSensor",
            ["apache-airflow-providers-apache-hdfs has removed it after version 3.", "hdfs==3."],
        ),
        (
            "from airflow.providers.amazon.aws.sensors.s3_key import S3KeySensor",
            ["airflow.providers.amazon.aws.sensors.s3", "`aiosched providers install apache-airflow-providers-amazon`"],
        ),
    ],
)
def test_what_has_no_successor_here_says_what_to_do(line: str, words: list[str]) -> None:
    with pytest.raises(ImportError) as caught:
        exec(line, {})

    assert [word for word in words if word not in str(caught.value)] == []


@pytest.fixture
def site(tmp_path: Path) -> Path:
    provider(tmp_path, "airflow.providers.amazon.aws.sensors.s3", "class S3KeySensor: here = 1\n")
    for package in ("amazon/aws", "amazon", "http"):
        (tmp_path / "airflow/providers" / package).mkdir(parents=True, exist_ok=True)
        (tmp_path / "airflow/providers" / package / "__init__.py").write_text("")
    return tmp_path


def test_a_module_that_a_package_has_dropped_gives_what_is_elsewhere_in_it(site: Path) -> None:
    code = "from airflow.providers.amazon.aws.sensors.s3_key import S3KeySensor as S; print(S.__module__, S.here)"

    assert python(install("compat") + code, path=site) == "airflow.providers.amazon.aws.sensors.s3 1"


def test_a_name_that_a_module_has_dropped_is_its_successor_unless_the_module_has_it(site: Path) -> None:
    code = "from airflow.providers.http.operators.http import SimpleHttpOperator as S; print(S.__name__)"
    provider(site, "airflow.providers.http.operators.http", "class HttpOperator: ...\n")

    assert python(install("compat") + code, path=site) == "HttpOperator"

    provider(site, "airflow.providers.http.operators.http", "class HttpOperator: ...\nclass SimpleHttpOperator: ...\n")
    assert python(install("compat") + code, path=site) == "SimpleHttpOperator"


def test_a_module_that_answers_for_old_names_itself_is_asked_first(site: Path) -> None:
    own = "class HttpOperator: ...\ndef __getattr__(name):\n    if name != 'Own': raise AttributeError\n    return 1\n"
    provider(site, "airflow.providers.http.operators.http", own)
    code = (
        "import inspect, airflow.providers.http.operators.http as m\n"
        "print(m.Own, m.SimpleHttpOperator.__name__, hasattr(m, 'Neither'), 'HttpOperator' in inspect.getsource(m))"
    )

    assert python(install("compat") + code, path=site) == "1 HttpOperator False True"
