"""The fixtures that other people's tests get, in a pytest of their own."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from aiosched.errors import ConfigError, NotFound
from aiosched.testing import load_dag_bag

SALES = """
from aiosched import dag, task

@dag(schedule="@daily")
def sales():
    @task
    def extract():
        return 3

    @task
    async def double(n):
        return 2 * n

    double(extract())

sales()
"""
BROKEN = """
from aiosched import DAG

DAG("broken", schedul="@daily")
"""
INI = """
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""
TESTS = """
async def test_async(run_dag, dag_bag):
    run = await run_dag(dag_bag("dags")["sales"])
    assert run.state == "success"
    assert run.xcoms["double"]["return_value"] == 6

def test_sync(run_dag, dag_bag, frozen_clock):
    run = run_dag(dag_bag("dags")["sales"], mocks={"extract": 5})
    assert run.xcoms["double"]["return_value"] == 10
    assert run.run_id.startswith("manual__2026-01-01T00:00:00")

def test_clock(frozen_clock):
    frozen_clock.advance(60)
    assert frozen_clock.now().minute == 1
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "sales.py").write_text(SALES)
    (tmp_path / "pytest.ini").write_text(INI)
    return tmp_path


def run_pytest(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


def test_the_fixtures_work_in_plain_and_async_tests(project: Path) -> None:
    (project / "test_sales.py").write_text(TESTS)

    done = run_pytest(project)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_an_import_error_fails_the_test_with_its_code_frame(project: Path) -> None:
    (project / "dags" / "broken.py").write_text(BROKEN)
    (project / "test_files.py").write_text("def test_files(dag_bag):\n    dag_bag('dags')\n")

    done = run_pytest(project)

    assert done.returncode == 1
    assert "1 DAG files cannot be imported" in done.stdout
    assert "broken.py:4" in done.stdout
    assert 'DAG("broken", schedul="@daily")' in done.stdout
    assert "load_dag_bag" not in done.stdout, "the failure shows the DAG file, not the plugin"


def test_the_first_conftest_may_import_airflow(project: Path) -> None:
    (project / "tests").mkdir()
    (project / "tests" / "conftest.py").write_text("from airflow.models import DagBag\n")
    (project / "tests" / "test_one.py").write_text("def test_one(): ...\n")

    assert "1 passed" in run_pytest(project, "tests").stdout


def test_a_filter_of_warnings_may_name_airflows_before(project: Path) -> None:
    (project / "site" / "airflow" / "providers").mkdir(parents=True)  # as installed provider packages leave it
    (project / "pytest.ini").write_text(
        "[pytest]\npythonpath = site\nfilterwarnings = ignore::airflow.exceptions.RemovedInAirflow3Warning\n"
    )
    (project / "conftest.py").write_text("import site\nfrom airflow.models import DagBag\n")
    (project / "test_one.py").write_text("def test_one(): ...\n")

    assert "1 passed" in run_pytest(project).stdout


def test_messages_are_seen_as_with_airflow(project: Path) -> None:
    (project / "test_one.py").write_text(
        "import logging\nimport airflow.models\n"
        "def test_one(caplog):\n    logging.getLogger('own').info('seen')\n    assert 'seen' in caplog.text\n"
    )

    assert "1 passed" in run_pytest(project).stdout


def test_the_plugin_costs_nothing_where_it_is_not_used() -> None:
    program = """
import sys
import aiosched.testing.plugin
print([m for m in sys.modules if m.startswith("aiosched.") and not m.startswith("aiosched.testing")])
print([m for m in ("sqlalchemy", "asyncpg", "msgspec", "pydantic") if m in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines() == ["['aiosched.lazy', 'aiosched.version']", "[]"]


def test_a_bag_has_what_can_be_imported_and_tells_the_rest(project: Path) -> None:
    (project / "dags" / "broken.py").write_text(BROKEN)
    (project / "dags" / "twice.py").write_text(SALES)

    bag = load_dag_bag(project / "dags")

    assert list(bag) == ["sales"]
    assert set(bag.errors) == {"broken.py", "twice.py"}
    assert "defined in sales.py already" in bag.explain()
    with pytest.raises(NotFound, match="Did you mean sales"):
        bag["sails"]
    with pytest.raises(ConfigError, match="There is no DAGs folder"):
        load_dag_bag(project / "nowhere")


async def test_a_dag_of_a_bag_can_be_put_into_a_world(project: Path) -> None:
    from aiosched.testing import World

    async with World(now=datetime(2026, 1, 1, tzinfo=UTC)) as world:
        world.add(*load_dag_bag(project / "dags").values())
        run = world.trigger("sales")

        await world.run_until_idle()

        assert world.states("sales", run) == {"extract": "success", "double": "success"}


def test_what_files_look_up_at_their_top_is_given(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "from aiosched import Connection, DAG, Variable\n"
        "name, limits = Variable.get('name'), Variable.get('limits', deserialize_json=True)\n"
        "parts = [name, str(limits['cpu']), Connection.get('a').host, Connection.get('b').host]\n"
        "parts += [Variable.get('c', 'd')]\n"
        "dag = DAG('_'.join(parts), schedule=None)\n"
    )
    values: dict[str, Any] = {
        "variables": {"name": "n", "limits": {"cpu": 2}},
        "connections": {"a": "http://one", "b": {"conn_type": "http", "host": "two"}},
    }

    assert list(load_dag_bag(tmp_path, **values)) == ["n_2_one_two_d"]
    assert "There is no variable 'name' here" in load_dag_bag(tmp_path).explain()


PLAIN = "[pytest]\nfilterwarnings = error\n"
STRICT = "[pytest]\nasyncio_mode = strict\nasyncio_default_fixture_loop_scope = function\nfilterwarnings = error\n"
OF_ANYIO = """
import pytest

@pytest.mark.anyio
async def test_of_anyio(anyio_backend_name, run_dag):
    assert anyio_backend_name == "asyncio"

@pytest.fixture
def anyio_backend():
    return "asyncio"
"""
NOBODYS = (
    "async def test_of_nobody(tmp_path):\n    assert tmp_path.is_dir()\n\nasync def test_wrong():\n    assert 1 == 2\n"
)


@pytest.mark.parametrize("without", [("no:asyncio",), pytest.param(("no:asyncio", "no:anyio"), marks=pytest.mark.slow)])
def test_async_tests_run_where_no_plugin_for_them_is_installed(project: Path, without: tuple[str, ...]) -> None:
    """As docs/testing.md has them, with pytest alone; a test that fails fails."""
    (project / "pytest.ini").write_text(PLAIN)
    (project / "test_sales.py").write_text(TESTS + NOBODYS)

    done = run_pytest(project, *(word for name in without for word in ("-p", name)))

    assert "1 failed, 4 passed" in done.stdout, done.stdout + done.stderr
    assert "assert 1 == 2" in done.stdout


def test_marked_tests_are_left_to_the_plugin_of_the_mark(project: Path) -> None:
    (project / "pytest.ini").write_text(PLAIN)
    (project / "test_sales.py").write_text(OF_ANYIO)

    done = run_pytest(project, "-p", "no:asyncio")

    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_where_pytest_asyncio_is_installed_its_mode_holds(project: Path) -> None:
    """In its strict mode a test without a mark is refused, by pytest and with pytest's words."""
    (project / "pytest.ini").write_text(STRICT)
    (project / "test_sales.py").write_text(TESTS)

    done = run_pytest(project)

    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "async def functions are not natively supported" in done.stdout
