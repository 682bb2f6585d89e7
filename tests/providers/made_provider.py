"""A provider package that is no release: a distribution with a hook, a decorator and an entry point, in a folder."""

from __future__ import annotations

from pathlib import Path

INFO = """
def get_provider_info():
    return {
        "package-name": "sales-provider",
        "name": "Sales",
        "operators": [{"integration-name": "Sales", "python-modules": ["sales_provider.operators"]}],
        "hooks": [{"integration-name": "Sales", "python-modules": ["sales_provider.hooks"]}],
        "connection-types": [
            {
                "hook-class-name": "sales_provider.hooks.SalesHook",
                "hook-name": "Sales system",
                "connection-type": "sales",
                "ui-field-behaviour": {
                    "hidden-fields": ["port"],
                    "relabeling": {"schema": "Shop"},
                    "placeholders": {"host": "sales.example"},
                },
                "conn-fields": {"limit": {"label": "Limit", "schema": {"type": "integer"}}},
            }
        ],
        "task-decorators": [{"name": "sell", "class-name": "sales_provider.operators.sell_task"}],
        "queues": ["sales_provider.needs_library.Queue", "sales_provider.hooks.SalesHook"],
        "filesystems": ["sales_provider.hooks"],
        "dialects": [{"dialect-type": "sales", "dialect-class-name": "sales_provider.hooks.SalesHook"}],
        "plugins": [{"name": "sales", "plugin-class": "sales_provider.hooks.SalesHook"}],
        "config": {"sales": {"options": {"limit": {"default": "3"}}}},
        "asset-uris": [{"schemes": ["sales"], "handler": "sales_provider.operators.sell_task", "factory": None}],
    }
"""
HOOKS = """
from airflow.sdk import BaseHook


class SalesHook(BaseHook):
    conn_name_attr = "sales_conn_id"

    def __init__(self, sales_conn_id="sales_default"):
        super().__init__()
        self.connection = self.get_connection(sales_conn_id)

    def test_connection(self):
        if self.connection.password != "secret":
            return False, "the password is wrong"
        return True, f"logged in at {self.connection.host}"
"""
OPERATORS = """
from airflow.sdk.bases.decorator import DecoratedOperator, task_decorator_factory


class SellOperator(DecoratedOperator):
    custom_operator_name = "@task.sell"

    def execute(self, context):
        return f"sold {super().execute(context)}"


def sell_task(python_callable=None, multiple_outputs=None, **kwargs):
    return task_decorator_factory(
        python_callable=python_callable,
        multiple_outputs=multiple_outputs,
        decorated_operator_class=SellOperator,
        **kwargs,
    )
"""
DAG_FILE = """
from airflow.sdk import dag, task


@dag
def shop():
    @task.sell
    def shoes(count: int):
        return f"{count} shoes"

    shoes(2)


shop()
"""


def write_provider(folder: Path) -> Path:
    """Write the package into `folder`, as an installer would; the folder."""
    package, metadata = folder / "sales_provider", folder / "sales_provider-1.5.0.dist-info"
    package.mkdir(parents=True)
    metadata.mkdir()
    for name, text in {"__init__": "", "info": INFO, "hooks": HOOKS, "operators": OPERATORS}.items():
        (package / f"{name}.py").write_text(text, encoding="utf-8")
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: sales-provider\nVersion: 1.5.0\n", encoding="utf-8"
    )
    (metadata / "entry_points.txt").write_text(
        "[apache_airflow_provider]\nprovider_info=sales_provider.info:get_provider_info\n", encoding="utf-8"
    )
    return folder
