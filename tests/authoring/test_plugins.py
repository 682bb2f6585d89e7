"""Plugins: macros and listeners from a folder and from entry points, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from aiosched import DAG, BashOperator, Plugin, PythonOperator, hookimpl
from aiosched.authoring.plugins import loading
from aiosched.authoring.plugins.loading import LoadedPlugins, load_plugins
from aiosched.errors import SkipTask
from aiosched.executors.dag_test import run_dag_test
from tests.undone_imports import without_plugins


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No plugins before and after a test, and none of this machine."""
    with without_plugins(monkeypatch):
        yield


def folder_of(tmp_path: Path, **files: str) -> str:
    for name, text in files.items():
        path = tmp_path / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(tmp_path)


GREETING = """
from aiosched import Plugin

def hello(name):
    return f"hello {name}"

class Greetings(Plugin):
    name = "greetings"
    macros = [hello]
"""


async def test_templates_call_the_macros_of_a_plugin(tmp_path: Path) -> None:
    load_plugins(folder_of(tmp_path, hbgreetings=GREETING))
    with DAG("d") as dag:
        BashOperator(task_id="t", bash_command="echo {{ macros.greetings.hello('you') }}")

    run = await run_dag_test(dag)

    assert run.task("t").state == "success"
    assert run.xcoms["t"]["return_value"] == "hello you"


def test_a_macro_that_no_plugin_has_is_named() -> None:
    from aiosched.authoring.runtime import macros

    with pytest.raises(AttributeError, match="no macro and no plugin 'greetings'"):
        macros.__getattr__("greetings")


def test_files_of_the_folder_can_be_imported_and_each_is_loaded_once(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, hbgreetings=GREETING, hbsub__inner="from hbgreetings import Greetings\n")

    loaded = load_plugins(folder)

    assert list(loaded.plugins) == ["greetings"]
    assert loaded.problems == []
    assert load_plugins(folder) is loaded
    assert sys.modules["hbsub.inner"].Greetings is loaded.plugins["greetings"]


def test_a_plugin_that_fails_stops_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = folder_of(
        tmp_path, hba="1 / 0", hbb="raise SystemExit(1)", hbc=GREETING.replace("name =", "title ="), hbd=GREETING
    )

    loaded = load_plugins(folder)

    assert list(loaded.plugins) == ["greetings"]
    assert [(Path(one.where).name, one.is_error) for one in loaded.problems] == [
        ("hba.py", True),
        ("hbb.py", True),
        ("hbc.py", True),
    ]
    assert "ZeroDivisionError" in loaded.problems[0].text
    assert "The plugin Greetings has no name" in loaded.problems[2].text
    assert "cannot be loaded" in caplog.text


def test_a_file_with_the_name_of_another_module_is_refused(tmp_path: Path) -> None:
    loaded = load_plugins(folder_of(tmp_path, json=GREETING))

    assert "the module 'json' is" in loaded.problems[0].text


def test_plugins_of_installed_packages_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, hbinstalled=GREETING)
    monkeypatch.syspath_prepend(folder)
    found = [
        EntryPoint("greetings", "hbinstalled:Greetings", "airflow.plugins"),
        EntryPoint("module", "hbinstalled", "airflow.plugins"),
        EntryPoint("gone", "hbgone:Plugin", "aiosched.plugins"),
    ]
    monkeypatch.setattr(loading, "plugin_entry_points", lambda: found)

    loaded = load_plugins(None)

    assert list(loaded.plugins) == ["greetings"]
    assert [one.where for one in loaded.problems] == ["entry point 'gone' (hbgone:Plugin)"]


def test_what_has_no_effect_is_refused_with_a_reason() -> None:
    class Listener:
        @hookimpl
        def on_dag_run_failed(self, dag_run: Any) -> None: ...

        @hookimpl(tryfirst=True)
        def on_task_instance_success(self, task_instance: Any) -> None: ...

        def on_task_instance_failed(self, task_instance: Any) -> None:
            """Not marked."""

    class Web(Plugin):
        name = "web"
        flask_blueprints = ["blueprint"]  # noqa: RUF012
        listeners = [Listener()]  # noqa: RUF012

    loaded = LoadedPlugins()
    loaded.add(Web, "here")

    hook, web = (str(one) for one in loaded.problems)
    assert hook.startswith(
        "here, plugin 'web': the listener's on_dag_run_failed is never called: the scheduler runs no"
    )
    assert web.startswith("here: flask_blueprints of plugin 'web' has no effect: the web UI and the API of aiosched")
    assert list(loaded.hooks) == ["on_task_instance_success"]
    assert not any(one.is_error for one in loaded.problems)


def test_of_two_plugins_with_one_name_the_first_is_taken(tmp_path: Path) -> None:
    loaded = load_plugins(folder_of(tmp_path, hba=GREETING, hbb=GREETING))

    assert list(loaded.plugins) == ["greetings"]
    assert "there is another plugin 'greetings'" in loaded.problems[0].text


# ---- listeners


def fail() -> None:
    raise ValueError("bad")


def skip() -> None:
    raise SkipTask("no")


async def wait() -> None:
    """A coroutine function."""


class Told:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    @hookimpl
    def on_task_instance_running(self, previous_state: Any, task_instance: Any) -> None:
        self.heard.append(("running", str(previous_state), task_instance.task_id))

    @hookimpl
    def on_task_instance_success(self, task_instance: Any) -> None:
        self.heard.append("success")
        raise RuntimeError("a listener broke")

    @hookimpl
    def on_task_instance_failed(self, error: Any, **others: Any) -> None:
        self.heard.append((repr(error), sorted(others)))

    @hookimpl
    def on_task_instance_skipped(self) -> None:
        self.heard.append("skipped")


@pytest.mark.parametrize(
    ("function", "state", "heard"),
    [
        (print, "success", "success"),
        (wait, "success", "success"),
        (fail, "failed", ("ValueError('bad')", ["previous_state", "task_instance"])),
        (skip, "skipped", "skipped"),
    ],
)
async def test_listeners_are_told_how_a_task_goes_and_change_nothing(function: Any, state: str, heard: Any) -> None:
    told = Told()

    class Listening(Plugin):
        name = "listening"
        listeners = [told]  # noqa: RUF012

    loading._current.add(Listening, "here")
    with DAG("d") as dag:
        PythonOperator(task_id="t", python_callable=function)

    run = await run_dag_test(dag)

    assert run.task("t").state == state
    assert told.heard == [("running", "queued", "t"), heard]


def test_a_report_for_doctor_is_made_in_another_process(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, hba="print('noise')\n1 / 0", hbb=GREETING)

    out = subprocess.run(
        [sys.executable, "-m", "aiosched.parsing.plugin_report", folder], capture_output=True, text=True, check=True
    )

    report = json.loads(out.stdout.splitlines()[-1])
    assert "greetings" in report["plugins"]
    assert [Path(one["where"]).name for one in report["problems"] if one["is_error"]] == ["hba.py"]
