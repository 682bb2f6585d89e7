"""`DagBag` and what else the tests of a team's DAG files use: the forms that generators, books and courses spread."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

GOOD = """
from airflow import DAG
from airflow.operators.bash import BashOperator
from datetime import datetime

args = {"retries": 2, "owner": "ada"}
with DAG("good", schedule=None, start_date=datetime(2024, 1, 1), tags=["team"], default_args=args) as dag:
    BashOperator(task_id="a", bash_command="true") >> BashOperator(task_id="b", bash_command="true")
"""
BAD = "from airflow import DAG\nimport no_such_library_anywhere\n"
LOOKS_UP = """
import os
from airflow import DAG
from airflow.hooks.base import BaseHook
from airflow.models import Variable
from datetime import datetime

region, limits = Variable.get("region"), Variable.get("limits", deserialize_json=True)
bucket = os.environ.get("BUCKET") or os.getenv("BUCKET")
with DAG("looks_up", schedule=None, start_date=datetime(2024, 1, 1), tags=[region, str(limits["cpu"]), bucket]):
    host = BaseHook.get_connection("shop").host
"""
SIZED = """
from airflow import DAG
from airflow.models import Variable

with DAG("sized", schedule=None, tags=[Variable.get("size", default_var="none")]) as dag: ...
"""
IMPORTS = """
import pytest
from airflow.models import DagBag, Variable
from dags import sized

def test_all():
    assert sized.dag.tags == ["none"]
    bag = DagBag(include_examples=False)
    assert bag.import_errors == {}
    assert bag.dags["sized"].tags == ["none"]
    with pytest.raises(KeyError):
        Variable.get("size")
"""
INTEGRITY = '''''
"""What generators write: every file can be imported, whatever it looks up at its top."""
import os
import pytest
from airflow.hooks.base import BaseHook
from airflow.models import Connection, DagBag, Variable
from airflow.utils.dag_cycle_tester import check_cycle
from airflow.utils.db import initdb, resetdb

initdb()
BaseHook.get_connection = lambda key, *args, **kwargs: Connection(key)
real = os.environ.get

def getenv(key, *args, **kwargs):
    return real(key) or (args[0] if args else kwargs.get("default")) or f"MOCKED_{key.upper()}"

os.getenv = getenv

class Anything(dict):
    def __getitem__(self, key):
        return {}.get(key, "MOCKED_KEY_VALUE")

_unset = object()

def get(key, default_var=_unset, deserialize_json=False):
    if default_var is not _unset:
        return default_var
    return Anything() if deserialize_json else "MOCKED"

Variable.get = get


def errors():
    bag = DagBag(include_examples=False)
    home = os.environ["AIRFLOW_HOME"]
    return [(None, None)] + [(os.path.relpath(k, home), v.strip()) for k, v in bag.import_errors.items()]


def dags():
    return [(key, dag, dag.fileloc) for key, dag in DagBag(include_examples=False).dags.items()]


@pytest.mark.parametrize("path, error", errors(), ids=[str(one[0]) for one in errors()])
def test_file_imports(path, error):
    if path and error:
        raise Exception(f"{path} failed to import with message \\n {error}")


@pytest.mark.parametrize("dag_id, dag, fileloc", dags(), ids=[one[2] for one in dags()])
def test_dag(dag_id, dag, fileloc):
    check_cycle(dag)
    assert dag.test_cycle() is False
    assert dag.tags
    assert dag.dag_id == dag_id
    if dag_id == "good":
        assert dag.default_args.get("retries", None) >= 2
        assert dag.get_task("a").downstream_task_ids == {"b"}
        assert set(dag.task_dict) == {"a", "b"}
'''


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "good.py").write_text(GOOD)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    monkeypatch.setenv("AIOSCHED_DAGS", str(tmp_path / "dags"))
    return tmp_path


def test_a_bag_has_dags_and_import_errors_by_file(project: Path) -> None:
    (project / "dags" / "bad.py").write_text(BAD)
    from airflow.models import DagBag

    bag = DagBag(dag_folder=str(project / "dags"), include_examples=False)

    assert list(bag.dags) == bag.dag_ids == ["good"]
    assert bag.size() == len(bag.dags) == 1
    assert bag.get_dag("good") is bag.dags["good"]
    assert bag.get_dag("nobody") is None
    [(path, error)] = bag.import_errors.items()
    assert path == str(project / "dags" / "bad.py")
    assert "ModuleNotFoundError" in error
    assert "no_such_library_anywhere" in error
    assert bag.dagbag_report().count("good.py") == 1


@pytest.mark.parametrize("module", ["airflow.models", "airflow.models.dagbag", "airflow.dag_processing.dagbag"])
def test_it_is_where_each_generation_has_it(project: Path, module: str) -> None:
    bag = __import__(module, fromlist=["DagBag"]).DagBag

    assert bag(os.fspath(project / "dags" / "good.py"), False).dag_ids == ["good"]  # a file, and the 1.10 order
    assert bag().dag_ids == ["good"]  # the folder of the settings


def test_files_are_added_one_by_one_and_read_again_when_they_have_changed(project: Path) -> None:
    from airflow.models import DagBag

    bag = DagBag(dag_folder=os.devnull, include_examples=False)
    assert bag.dags == {}
    path = project / "dags" / "good.py"

    assert [dag.dag_id for dag in bag.process_file(str(path))] == ["good"]
    path.write_text(GOOD.replace('"good"', '"better"'))
    os.utime(path, (1, 1))
    assert [dag.dag_id for dag in bag.process_file(str(path), only_if_updated=True)] == ["better"]
    assert bag.dag_ids == ["better"]
    path.write_text(BAD)
    assert bag.process_file(str(path)) == []
    assert list(bag.import_errors) == [str(path)]
    path.write_text(GOOD)
    bag.collect_dags(str(project / "dags"))
    assert bag.import_errors == {}
    assert bag.dag_ids == ["good"]
    assert bag.process_file(str(project / "nowhere.py")) == []


def test_one_id_in_two_files_is_an_import_error_of_the_second(project: Path) -> None:
    (project / "dags" / "good_again.py").write_text(GOOD)
    from airflow.models import DagBag

    bag = DagBag(str(project / "dags"))

    assert bag.dag_ids == ["good"]
    assert "good" in bag.import_errors[str(project / "dags" / "good_again.py")]


def test_a_dag_that_a_test_made_is_put_into_the_bag(project: Path) -> None:
    from airflow import DAG
    from airflow.exceptions import AirflowDagCycleException
    from airflow.models import DagBag
    from airflow.operators.empty import EmptyOperator

    bag = DagBag(os.devnull)
    with DAG("made", schedule=None) as made:
        EmptyOperator(task_id="a") >> EmptyOperator(task_id="b")
    bag.bag_dag(made)
    assert bag.get_dag("made") is made
    made.get_task("b") >> made.get_task("a")
    with pytest.raises(AirflowDagCycleException):
        bag.bag_dag(made)


@pytest.mark.parametrize("more", ["", LOOKS_UP])
def test_an_integrity_test_as_generators_write_it_passes(project: Path, more: str) -> None:
    (project / "dags" / "more.py").write_text(more)
    (project / "test_integrity.py").write_text(INTEGRITY)

    done = pytest_in(project)

    assert done.returncode == 0, done.stdout + done.stderr


def test_an_integrity_test_finds_what_is_broken(project: Path) -> None:
    (project / "dags" / "bad.py").write_text(BAD)
    (project / "test_integrity.py").write_text(INTEGRITY)

    done = pytest_in(project)

    assert "no_such_library_anywhere" in done.stdout
    assert "1 failed" in done.stdout, done.stdout


def pytest_in(project: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW__")}
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, env=env)


def test_what_a_tests_own_import_looks_up_has_its_default(project: Path) -> None:
    """There is no database, only the environment and the default; whether a bag imports the file or the test itself."""
    (project / "dags" / "sized.py").write_text(SIZED)
    (project / "test_import.py").write_text(IMPORTS)

    done = pytest_in(project)

    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_the_list_of_backends_says_where_backends_are_named() -> None:
    from airflow.configuration import secrets_backend_list
    from airflow.exceptions import AirflowException
    from airflow.secrets.local_filesystem import LocalFilesystemBackend

    assert secrets_backend_list == []
    with pytest.raises(AirflowException, match=r"\[\[secrets.backends\]\]"):
        secrets_backend_list.insert(0, object())
    with pytest.raises(AirflowException, match="variables import"):
        LocalFilesystemBackend(variables_file_path="variables.yaml")
