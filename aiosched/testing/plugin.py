"""The pytest plugin: fixtures for tests of DAGs. It imports nothing of aiosched before a fixture is used.

run_dag        runs a DAG once in this process and returns its TestRun
dag_bag        parses a folder and fails, with code frames, if a file cannot be imported
frozen_clock   a clock that stays at 2026-01-01 00:00 UTC until a test moves it

An `async def` test runs without another plugin, too; where pytest-asyncio is installed, its mode and marks hold.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

_DATABASE = "aiosched.testing.airflow_database"

if TYPE_CHECKING:
    from aiosched.clock import FakeClock
    from aiosched.testing.dag_bag import DagBag


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Let aiosched answer `import airflow` from the first conftest.py on, as the settings say.

    Where they say nothing, an Airflow that is installed answers: the tests may be those of another project.
    """
    from aiosched.airflow.finder import install
    from aiosched.airflow.objects.sessions import of_tests
    from aiosched.authoring.runtime.lookups import answering

    install(_airflow_mode)
    of_tests.set()
    answering(_answer).__enter__()  # to the end of the tests, which import DAG files themselves


def pytest_configure() -> None:
    """The same where a conftest.py names this plugin, which is too late for the other hook."""
    pytest_load_initial_conftests()


def _answer(kind: str, key: str) -> Mapping[str, Any]:
    """What the tests have put into their database, once they have one."""
    from aiosched.authoring.runtime.lookups import answer_nothing

    database = sys.modules.get(_DATABASE)
    return answer_nothing(kind, key) if database is None else database.answer(kind, key)


def _airflow_mode() -> str:
    from aiosched.config import load_settings

    root = logging.getLogger()
    if root.level == logging.WARNING:  # Python's default; Airflow sets another, and tests look for its messages
        root.setLevel(logging.INFO)
    loaded = load_settings()
    is_default = loaded.origins["core.airflow"].source == "default"
    return "installed" if is_default else loaded.settings.core.airflow


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine function for which there is no plugin, on a loop of its own; pytest itself would refuse it."""
    plugins, function = pyfuncitem.config.pluginmanager, pyfuncitem.obj
    if plugins.hasplugin("asyncio") or not inspect.iscoroutinefunction(function):
        return None
    wanted = pyfuncitem._fixtureinfo.argnames  # what pytest itself passes
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(function(**{name: pyfuncitem.funcargs[name] for name in wanted}))
    return True


@pytest.fixture
def frozen_clock() -> FakeClock:
    """A clock that moves only by `advance(seconds)`, or by setting `at`."""
    from aiosched.clock import FakeClock

    return FakeClock(datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture
def run_dag(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`run_dag(dag, conf=…, mocks=…)` returns a TestRun; in an `async def` test `await run_dag(…)`.

    Takes the arguments of `run_dag_test`. In a test that also uses `frozen_clock`, the run uses that clock. The
    run does not wait: retries are due at once.
    """
    from aiosched.executors.dag_test import TestRun, run_dag_test

    clock = request.getfixturevalue("frozen_clock") if "frozen_clock" in request.fixturenames else None

    def run(dag: Any, **options: Any) -> Any:
        work = run_dag_test(dag, **{"clock": clock, "pause": 0.0, **options})
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:  # does not touch the thread's own loop
                result: TestRun = runner.run(work)
            return result
        return work

    return run


@pytest.fixture
def dag_bag() -> Callable[..., DagBag]:
    """`dag_bag("dags")` imports every file of a folder and returns the DAGs by id.

    The test fails if a file has an import error. Without an argument, the DAGs folder of the settings is used. Takes
    `variables` and `connections` that files look up at their top level, as `load_dag_bag` does.
    """
    from aiosched.testing.dag_bag import load_dag_bag

    def load(folder: Path | str | None = None, **values: Any) -> DagBag:
        __tracebackhide__ = True
        bag = load_dag_bag(folder, **values)
        if bag.errors:
            pytest.fail(f"{len(bag.errors)} DAG files cannot be imported.\n\n{bag.explain()}", pytrace=False)
        return bag

    return load
