"""`airflow.operators.<plugin>` and the like, which DAG files of Airflow 1.10 import. See docs/authoring.md, Plugins."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiosched import DAG
from aiosched.authoring.base.settings import AuthoringDefaults, use_defaults
from aiosched.authoring.runtime.context import Context
from aiosched.config import Settings, load_settings
from aiosched.core.values.messages import RunInfo
from aiosched.executors.attempt.dag_cache import FileDags
from aiosched.executors.attempt.runner import DagUnavailable, drive
from aiosched.parsing.check import check_paths
from tests.executors.attempt_builders import NOW
from tests.parsing.builders import write
from tests.undone_imports import without_plugins

PLUGIN = """
from airflow.hooks.base_hook import BaseHook
from airflow.models import BaseOperator
from airflow.plugins_manager import AirflowPlugin
from airflow.sensors.base_sensor_operator import BaseSensorOperator

class PayOperator(BaseOperator):
    def execute(self, context):
        return "paid"

class OpenSensor(BaseSensorOperator):
    def poke(self, context):
        return True

class ShopHook(BaseHook):
    pass

def euros(cents):
    return cents / 100

class ShopPlugin(AirflowPlugin):
    name = "shop_plugin"
    operators = [PayOperator]
    sensors = [OpenSensor]
    hooks = [ShopHook]
    macros = [euros]
"""
DAG_FILE = """
import airflow.sensors.shop_plugin
from airflow import DAG
from airflow.hooks import shop_plugin
from airflow.macros.shop_plugin import euros
from airflow.operators.shop_plugin import *

assert shop_plugin.ShopHook and euros(150) == 1.5
with DAG("shop", schedule_interval=None) as dag:
    airflow.sensors.shop_plugin.OpenSensor(task_id="open") >> PayOperator(task_id="pay")
"""
OTHER = "import aiosched\nfrom {module} import {name}\nwith aiosched.DAG('other', schedule=None): pass\n"


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No plugins before and after a test, and none of this machine."""
    monkeypatch.chdir(tmp_path)
    with without_plugins(monkeypatch):
        yield
    use_defaults(AuthoringDefaults())


def settings_of(root: Path) -> Settings:
    return load_settings({"core.dags_folder": root / "dags"}, environ={}).settings


def project(root: Path, dag: str, *plugins: str) -> Path:
    """The DAG file of a project with these plugins."""
    for number, plugin in enumerate(plugins):
        write(root, f"plugins/hbplugin{number}.py", plugin)
    return write(root, "dags/a.py", dag)


def loaded(root: Path, dag_id: str) -> DAG:
    run = RunInfo(key=1, dag_id=dag_id, run_id="r", run_type="manual", run_after=NOW, file="a.py", source_hash="h")
    return drive(FileDags.of(settings_of(root)).load(run))


async def test_the_classes_of_a_plugin_are_imported_as_in_airflow_1(tmp_path: Path) -> None:
    (result,) = await check_paths([project(tmp_path, DAG_FILE, PLUGIN)], settings_of(tmp_path))

    assert result.error is None, result.error
    assert [dag.dag_id for dag in result.dags] == ["shop"]
    assert loaded(tmp_path, "shop").get_task("pay").execute(Context({})) == "paid"


@pytest.mark.parametrize(
    ("module", "name", "plugins", "message"),
    [
        ("airflow.operators.no_plugin", "A", [PLUGIN], "cannot import name 'no_plugin' from 'airflow.operators'"),
        ("airflow.operators.shop_plugin", "Gone", [PLUGIN], "cannot import name 'Gone'"),
        ("airflow.operators.shop_plugin", "ShopHook", [PLUGIN], "cannot import name 'ShopHook'"),
        ("airflow.executors.shop_plugin", "A", [PLUGIN], "shop_plugin"),
        ("airflow.operators.shop_plugin.more", "A", [PLUGIN], "shop_plugin"),
        (
            "airflow.operators.shop_plugin",
            "PayOperator",
            ["import no_such_thing\n" + PLUGIN],
            "hbplugin0.py: cannot be loaded: ModuleNotFoundError: No module named 'no_such_thing'",
        ),
        (
            "airflow.operators.shop_plugin",
            "PayOperator",
            [PLUGIN.replace("[PayOperator]", "[3]")],
            "airflow.operators.shop_plugin: the plugin lists 3, which is neither class nor function",
        ),
        (
            "airflow.operators.round_plugin",
            "A",
            ["from airflow.operators.round_plugin import A\n" + PLUGIN],
            "hbplugin0.py: cannot be loaded: ModuleNotFoundError",
        ),
    ],
)
def test_what_no_plugin_lists_is_an_error_that_says_why(
    tmp_path: Path, module: str, name: str, plugins: list[str], message: str
) -> None:
    project(tmp_path, OTHER.format(module=module, name=name), *plugins)

    with pytest.raises(DagUnavailable, match=re.escape(message)):
        loaded(tmp_path, "other")


def test_modules_of_airflow_go_first(tmp_path: Path) -> None:
    plugin = PLUGIN.replace('"shop_plugin"', '"bash_operator"')

    project(tmp_path, OTHER.format(module="airflow.operators.bash_operator", name="BashOperator"), plugin)

    assert loaded(tmp_path, "other").dag_id == "other"
