"""Of which Airflow a project is. docs/migration.md, "Of which Airflow"."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiosched.migration.cfg import as_toml, read_cfg
from aiosched.migration.generation import Generation, generation_of
from tests.parsing.builders import write


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("[dag_processor]\nrefresh_interval = 3", 3),
        ("[execution_api]\njwt_audience = x", 3),
        ("[api]\nport = 8080", 3),
        ("[api]\nauth_backends = x", None),
        ("[core]\nauth_manager = airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager", 3),
        ("[core]\nauth_manager = airflow.auth.managers.fab.fab_auth_manager.FabAuthManager", 2),
        ("[core]\nauth_manager = airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager", 3),
        ("[core]\nauth_manager = acme.Manager\n[webserver]\nweb_server_port = 1", 2),
        ("[webserver]\nrbac = True", 2),
        ("[core]\nsql_alchemy_conn = x", 2),
        ("[webserver]\nweb_server_port = 1\n[dag_processor]\nparsing_processes = 2", 3),
        ("[core]\nparallelism = 3", None),
    ],
)
def test_options_that_only_one_generation_has_tell_it(tmp_path: Path, text: str, number: int | None) -> None:
    (tmp_path / "dags").mkdir()
    cfg = read_cfg(write(tmp_path, "airflow.cfg", text), {})

    found = generation_of(cfg, tmp_path / "dags")

    assert (found and found.number) == number


@pytest.mark.parametrize(
    ("name", "text", "number"),
    [
        ("requirements.txt", "apache-airflow==2.9.1", 2),
        ("requirements.txt", "apache-airflow[celery,postgres]~=3.0.2", 3),
        ("requirements-dev.txt", "apache-airflow==1.10.15", 2),
        ("requirements.txt", "apache-airflow>=3", 3),
        ("requirements.txt", "apache-airflow>=2.4", None),
        ("requirements.txt", "apache-airflow>=2.4,<3", 2),
        ("requirements.txt", "apache-airflow-providers-http==3.0.0\napache-airflow", None),
        ("requirements.txt", "-c https://x/apache/airflow/constraints-2.10.3/constraints-3.11.txt", 2),
        ("pyproject.toml", 'dependencies = ["apache-airflow==3.1.0"]', 3),
        ("pyproject.toml", 'apache-airflow = "^2.8"', 2),
        ("pyproject.toml", 'apache-airflow = {extras = ["celery"], version = "2.8.1"}', 2),
        ("Dockerfile", "FROM apache/airflow:slim-2.7.3-python3.11", 2),
        ("Dockerfile", "FROM quay.io/astronomer/astro-runtime:12.1.0", 2),
        ("Dockerfile", "FROM astrocrpublic.azurecr.io/runtime:3.0-4", 3),
        ("Dockerfile", "ARG AIRFLOW_VERSION=2.9.1", 2),
        ("Dockerfile", "# FROM astro-runtime:12.1.1\nFROM astrocrpublic.azurecr.io/runtime:3.1-14", 3),
        ("docker-compose.yaml", "image: ${AIRFLOW_IMAGE_NAME:-apache/airflow:3.0.1}", 3),
        ("dags/a.py", "from airflow.sdk import dag", 3),
        ("dags/a.py", "try:\n    from airflow.sdk import dag\nexcept ImportError:\n    from airflow import DAG", None),
        ("dags/a.py", "from airflow.decorators import dag", None),
        ("dags/a.py", "from airflow.operators.bash_operator import BashOperator", 2),
        ("dags/a.py", "from airflow.operators import python_operator", 2),
        ("dags/a.py", "from airflow.contrib.hooks.aws_hook import AwsHook", 2),
        ("dags/a.py", "from airflow.hooks.postgres_hook import PostgresHook", 2),
        ("dags/a.py", "from airflow.sensors.time_sensor import TimeSensor", None),
        ("dags/a.py", "from airflow.operators.python import my_operator", None),
        ("dags/a.py", "try:\n    from airflow.operators.dummy import DummyOperator\nexcept ImportError: ...", None),
    ],
)  # fmt: skip
def test_versions_and_imports_of_the_project_tell_it(tmp_path: Path, name: str, text: str, number: int | None) -> None:
    (tmp_path / "dags").mkdir()
    write(tmp_path, ".git", "")
    write(tmp_path, name, text)

    found = generation_of({}, tmp_path / "dags")

    assert (found and found.number) == number


def test_a_contradiction_tells_nothing_and_the_database_knows_best(tmp_path: Path) -> None:
    write(tmp_path, "requirements.txt", "apache-airflow==2.9.1")
    write(tmp_path, "Dockerfile", "FROM apache/airflow:3.0.1")

    assert generation_of({}, tmp_path / "dags") is None
    found = generation_of({("api", "port"): "1"}, tmp_path / "dags", database=2)
    assert found == Generation(2, "its metadata database")


@pytest.mark.parametrize(
    ("cfg", "number", "settings"),
    [
        ({}, 3, {"airflow_defaults": "3", "dag_ignore_file_syntax": "glob", "dags_are_paused_at_creation": True}),
        ({}, 2, {"airflow_defaults": "2", "dag_ignore_file_syntax": "regexp", "dags_are_paused_at_creation": True}),
        ({"dag_ignore_file_syntax": "glob", "dags_are_paused_at_creation": "False"}, 2, {"airflow_defaults": "2"}),
    ],
)
def test_settings_follow_from_it(cfg: dict[str, str], number: Any, settings: dict[str, Any]) -> None:
    lines = list(Generation(number, "x").settings({("core", name): value for name, value in cfg.items()}))

    assert {line.key: line.value for line in lines} == {f"core.{name}": value for name, value in settings.items()}
    assert '[core]\nairflow_defaults = "' in as_toml(lines)
