"""An installed provider package: what it declares is listed, found and used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aiosched.airflow.finder import install
from aiosched.airflow.objects.providers_manager import ProvidersManager
from aiosched.cli.operation.connection_test import try_connection
from aiosched.core.values.connections import ConnectionValue
from aiosched.errors import AioschedError
from aiosched.providers import connection_types, forget_providers
from tests.providers.conftest import Run
from tests.providers.made_provider import DAG_FILE, write_provider
from tests.undone_imports import undone_imports


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the package; this process and its children find it."""
    found = write_provider(tmp_path / "site")
    monkeypatch.syspath_prepend(str(found))
    monkeypatch.setenv("PYTHONPATH", str(found))
    forget_providers()
    yield found
    forget_providers()


def command(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "aiosched", *arguments], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    return done.stdout


@pytest.mark.usefixtures("folder")
def test_it_is_listed_with_its_types_and_decorators() -> None:
    [listed] = [
        one for one in json.loads(command("providers", "list", "-o", "json")) if one["package"] == "sales-provider"
    ]

    assert listed["version"] == "1.5.0"
    assert [one["name"] for one in listed["connection_types"]] == ["sales"]
    assert listed["decorators"] == {"sell": "sales_provider.operators.sell_task"}
    assert "sales\tSales system\tsales-provider" in command("connections", "types")


@pytest.mark.usefixtures("folder")
def test_its_connection_type_describes_the_form() -> None:
    found = connection_types()["sales"]

    assert (found.hidden, found.labels, found.placeholders) == (
        ("port",),
        {"schema": "Shop"},
        {"host": "sales.example"},
    )
    assert found.fields == {"limit": "Limit"}


@pytest.mark.usefixtures("folder")
async def test_its_hook_tests_connections_in_a_process_of_its_own() -> None:
    good = ConnectionValue(conn_id="shop", conn_type="sales", host="h", password="secret")
    wrong = ConnectionValue(conn_id="shop", conn_type="sales", host="h", password="guess")

    assert await try_connection(good, timeout=60) == "logged in at h (sales_provider.hooks.SalesHook)"
    with pytest.raises(AioschedError, match=r"'shop' does not work.*the password is wrong"):
        await try_connection(wrong, timeout=60)
    assert "sales_provider.hooks" not in sys.modules


def test_its_decorator_makes_tasks(folder: Path, run_file: Run) -> None:
    run = run_file(folder, DAG_FILE)

    assert run["tasks"]["shoes"] == {"state": "success", "reason": None, "xcoms": {"return_value": "sold 2 shoes"}}


@pytest.mark.usefixtures("folder")
def test_code_of_airflow_is_told_what_it_declares_and_can_be_imported() -> None:
    install("compat")
    with undone_imports():
        manager = ProvidersManager()
        manager.initialize_providers_queues()
        manager.initialize_providers_plugins()

        assert manager.queue_class_names == ["sales_provider.hooks.SalesHook"]  # the other one lacks its library
        assert manager.filesystem_module_names == ["sales_provider.hooks"]
        assert manager.executor_class_names == []
        assert manager.dialects["sales"]._asdict() == {
            "name": "sales",
            "dialect_class_name": "sales_provider.hooks.SalesHook",
            "provider_name": "sales-provider",
        }
        assert [one.plugin_class for one in manager.plugins] == ["sales_provider.hooks.SalesHook"]
        assert dict(manager.provider_configs)["sales-provider"]["sales"]["options"] == {"limit": {"default": "3"}}
        assert manager.asset_uri_handlers["sales"].__name__ == "sell_task"
        assert manager.asset_factories == {}
        assert manager.providers["sales-provider"].data["package-name"] == "sales-provider"
        with pytest.raises(AttributeError, match="no attribute 'queue_classes'"):
            manager.queue_classes  # noqa: B018
