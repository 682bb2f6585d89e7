"""`import airflow`: every name of the tables, the same objects as aiosched's, and what an unknown name says."""

from __future__ import annotations

import inspect
import pkgutil
import re
from importlib import import_module
from types import ModuleType

import pytest
from packaging.version import Version

import aiosched
from aiosched.airflow import tables
from aiosched.airflow.hints import provider_package
from aiosched.airflow.tables import MODULES

_PROVIDERS = "airflow.providers."
LOCAL = [(module, name) for module, names in MODULES.items() for name, home in names.items() if _PROVIDERS not in home]
ELSEWHERE = [home for names in MODULES.values() for home in names.values() if home.startswith(_PROVIDERS)]


def test_each_name_of_the_tables_can_be_imported() -> None:
    def is_there(module: str, name: str) -> bool:
        try:
            return hasattr(import_module(module), name) or (name == "*" and bool(dir(import_module(module))))
        except ImportError as error:
            return "aiosched[" in str(error)  # an extra that is not installed here

    assert [f"{module}.{name}" for module, name in LOCAL if not is_there(module, name)] == []


def test_a_name_is_in_one_table_only() -> None:
    homes: dict[tuple[str, str], set[str]] = {}
    for area in pkgutil.iter_modules(tables.__path__):
        for module, names in import_module(f"{tables.__name__}.{area.name}").NAMES.items():
            for name, home in names.items():
                homes.setdefault((module, name), set()).add(home)

    assert {place: found for place, found in homes.items() if len(found) > 1} == {}


def test_each_home_in_a_provider_package_is_a_name_in_a_module() -> None:
    assert [home for home in ELSEWHERE if not re.fullmatch(r"airflow\.providers(\.\w+)+(:\w*)?", home)] == []
    packages = {provider_package(home.partition(":")[0]) for home in ELSEWHERE}
    assert {"apache-airflow-providers-google", "apache-airflow-providers-apache-hive"} <= packages
    assert "apache-airflow-providers-apache" not in packages


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("airflow", "DAG"),
        ("airflow.models", "DAG"),
        ("airflow.models", "BaseOperator"),
        ("airflow.sdk", "BaseOperator"),
        ("airflow.sdk", "DAG"),
        ("airflow.models.baseoperator", "BaseOperator"),
        ("airflow.operators.bash_operator", "BashOperator"),
        ("airflow.operators.bash", "BashOperator"),
        ("airflow.providers.standard.operators.bash", "BashOperator"),
        ("airflow.utils.task_group", "TaskGroup"),
    ],
)
def test_a_class_is_the_same_object_under_each_path(path: str, name: str) -> None:
    assert getattr(import_module(path), name) is getattr(aiosched, name)


def test_modules_can_be_imported_as_names_and_reached_as_attributes() -> None:
    import airflow
    import airflow.operators.bash_operator
    from airflow import models
    from airflow.utils import dates

    assert models is airflow.models
    assert airflow.utils.dates is dates
    assert airflow.operators.bash_operator.BashOperator is aiosched.BashOperator


def test_a_star_import_gives_the_names_of_the_table() -> None:
    space: dict[str, object] = {}
    exec("from airflow.operators.python_operator import *\nfrom airflow.utils.dates import *", space)

    assert space["PythonOperator"] is aiosched.PythonOperator
    assert inspect.isfunction(space["days_ago"])
    assert "_step" not in space


def test_a_missing_attribute_is_an_attribute_error_as_in_any_module() -> None:
    models = import_module("airflow.models")

    assert isinstance(models, ModuleType)
    assert getattr(models, "NoSuchModel", None) is None
    assert not hasattr(models, "NoSuchModel")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("from airflow.models import BashOperator", "from airflow.operators import BashOperator"),
        ("from airflow.operators.bash import BashOperater", "Did you mean 'BashOperator'"),
        ("import airflow.operators.bashs", "Did you mean 'airflow.operators.bash'"),
        (
            "from airflow.providers.google.cloud.operators.bigquery import BigQueryCheckOperator",
            "`aiosched providers install apache-airflow-providers-google`",
        ),
        (
            "from airflow.providers.microsoft.azure.hooks.wasb import WasbHook",
            "`aiosched providers install apache-airflow-providers-microsoft-azure`",
        ),
        (
            "from airflow.contrib.operators.bigquery_operator import BigQueryOperator",
            "`aiosched providers install apache-airflow-providers-google`",
        ),
        (
            "from airflow.providers.http.operators.http import NoSuchOperator",
            "`aiosched providers install apache-airflow-providers-http`",
        ),
    ],
)
def test_an_unknown_name_says_where_it_is_or_what_to_install(statement: str, message: str) -> None:
    with pytest.raises(ImportError, match=re.escape(message)):
        exec(statement)


def test_the_version_makes_provider_packages_take_the_sdk() -> None:
    from airflow import __version__

    assert Version(__version__) >= Version("3.0")
