"""Sessions that tests of Airflow projects open: a database of their own, and none in tasks and DAG files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, func, select, update
from sqlalchemy.exc import IntegrityError

from aiosched.errors import AioschedError, NotFound, Refused
from tests.airflow.airflow_builders import one_dag


@pytest.fixture(autouse=True)
def database() -> Iterator[None]:
    from airflow.utils.db import resetdb  # type: ignore[import-not-found]

    resetdb()
    yield
    resetdb()


def names() -> Any:
    import airflow.models  # type: ignore[import-not-found]

    return airflow.models


def open_session() -> Any:
    from airflow.utils.session import create_session  # type: ignore[import-not-found]

    return create_session()


def connection(conn_id: str = "shop", **fields: Any) -> Any:
    return names().Connection(conn_id=conn_id, **{"conn_type": "http", "host": "h", "password": "p", **fields})


DAG_FILE = """
from datetime import datetime
from airflow import DAG
from airflow.hooks.base import BaseHook
from airflow.models import DagRun, TaskInstance, Variable, XCom
from airflow.operators.python import PythonOperator
from airflow.utils.session import create_session

def work():
    BODY

with DAG('d', start_date=datetime(2024, 1, 1), schedule=None) as dag:
    PythonOperator(task_id='t', python_callable=work)
"""


def dag_with(tmp_path: Path, body: str) -> Any:
    return one_dag(tmp_path, DAG_FILE.replace("BODY", body.replace("\n", "\n    ")))


def test_what_a_fixture_stores_is_looked_up(tmp_path: Path) -> None:
    from airflow.hooks.base import BaseHook  # type: ignore[import-not-found]

    with open_session() as session:
        session.add_all([connection(extra='{"a": 1}', port=80), names().Variable(key="limit", val="7")])

    assert (BaseHook.get_connection("shop").port, BaseHook.get_connection("shop").extra_dejson) == (80, {"a": 1})
    assert names().Variable.get("limit", deserialize_json=True) == 7
    run = dag_with(tmp_path, "return [BaseHook.get_connection('shop').host, Variable.get('limit')]").create_dagrun()
    run.get_task_instance("t").run()
    assert run.get_task_instance("t").xcom_pull("t") == ["h", "7"]


def test_connections_are_found_changed_and_deleted() -> None:
    Connection = names().Connection
    early = connection("early", login="me")
    with open_session() as session:
        session.add(connection())
        session.add(early)
        early.host = "other"
    with open_session() as session:
        assert session.query(Connection).filter(Connection.conn_id == "early").one().get_uri() == "http://me:p@other"
        session.query(Connection).filter_by(conn_id="early").first().set_password("new")
        session.execute(update(Connection).where(Connection.conn_id == "shop").values(port=8080))
    assert Connection.get("shop").port == 8080
    assert Connection.get("early").password == "new"
    with open_session() as session:
        session.delete(session.scalars(select(Connection).where(Connection.conn_id == "early")).one())
        assert session.query(Connection).filter(Connection.conn_id.like("sh%")).delete() == 1
    with pytest.raises(NotFound):
        Connection.get("shop")


@pytest.mark.parametrize(("given", "port"), [("", None), ("8080", 8080)])
def test_a_port_may_be_a_text(given: str, port: int | None) -> None:
    with open_session() as session:
        session.add(connection(port=given))
    assert names().Connection.get("shop").port == port


def test_an_error_takes_everything_back() -> None:
    def store_twice() -> None:
        with open_session() as session:
            session.add(names().Variable(key="a", val="1"))
            session.flush()
            session.add(names().Variable(key="a", val="2"))

    with pytest.raises(IntegrityError):
        store_twice()
    assert names().Variable.get("a", None) is None


def test_a_session_does_not_disturb_another() -> None:
    with open_session() as outer:
        outer.add(connection())
        outer.flush()
        assert names().Variable.get("none", None) is None  # a look-up in between
        outer.rollback()
    assert names().Variable.get("none", None) is None
    with pytest.raises(NotFound):
        names().Connection.get("shop")


def test_variables_are_changed_by_tests() -> None:
    Variable = names().Variable
    Variable.set("a", [1], serialize_json=True)
    Variable.update("a", [1, 2], serialize_json=True)
    assert Variable.setdefault("a", [], deserialize_json=True) == [1, 2]
    assert Variable.setdefault("b", "x") == "x"
    with open_session() as session:
        assert {one.key: one.val for one in session.query(Variable)} == {"a": "[1, 2]", "b": "x"}
    assert (Variable.delete("a"), Variable.delete("a")) == (1, 0)
    with pytest.raises(NotFound):
        Variable.update("a", 1)


def test_the_engine_is_that_of_the_sessions() -> None:
    from airflow import settings  # type: ignore[import-not-found]

    with open_session() as session:
        session.add(names().Variable("a", "1"))
        assert session.query(names().Variable).one().get_val() == "1"
    with settings.engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT key, val FROM variable").all() == [("a", "1")]
    settings.engine.dispose()


def test_threads_may_open_the_first_sessions(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from threading import Barrier\n"
        "from airflow.models import Variable\n"
        "from airflow.utils.session import create_session\n"
        "together = Barrier(8)\n"
        "def add(number):\n"
        "    together.wait()\n"
        "    with create_session() as session:\n"
        "        session.add(Variable(key=str(number), val='x'))\n"
        "def test_one():\n"
        "    with ThreadPoolExecutor(8) as pool:\n"
        "        list(pool.map(add, range(8)))\n"
        "    with create_session() as session:\n"
        "        assert session.query(Variable).count() == 8\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_one.py"]

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_merge_conn_keeps_what_is_there() -> None:
    from airflow.utils import db

    db.merge_conn(connection(host="first"))
    db.merge_conn(connection(host="second"))
    assert names().Connection.get("shop").host == "first"


def test_pools() -> None:
    Pool = names().Pool
    assert (Pool.get_pool("default_pool").slots, Pool.get_pool("none")) == (128, None)
    Pool.create_or_update_pool("small", slots=2, description="two", include_deferred=False)
    with open_session() as session:
        session.query(Pool).filter(Pool.pool == "small").one().slots = 3
        session.add(Pool(pool="other", slots=1))
    assert Pool.get_pool("small").open_slots() == 3
    Pool.delete_pool("small")
    assert sorted(pool.pool for pool in Pool.get_pools()) == ["default_pool", "other"]


def test_runs_and_instances_are_rows(tmp_path: Path) -> None:
    DagRun, TaskInstance, XCom = names().DagRun, names().TaskInstance, names().XCom
    dag = dag_with(tmp_path, "return {'n': 1}")
    dag.sync_to_db()
    run = dag.create_dagrun(run_id="r", conf={"a": [1]})
    with open_session() as session:
        found = session.query(DagRun).filter(DagRun.dag_id == "d", DagRun.execution_date.isnot(None)).one()
        assert (found.run_id, found.conf, found.logical_date) == ("r", {"a": [1]}, run.logical_date)
        assert isinstance(found, DagRun)
        assert not isinstance(found, TaskInstance)
        assert session.query(TaskInstance).filter(TaskInstance.state.is_(None)).count() == 1
    ti = run.get_task_instance("t")
    ti.run()
    with open_session() as session:
        assert session.scalar(select(TaskInstance.state).where(TaskInstance.task_id == "t")) == "success"
        assert session.query(XCom).filter_by(key="return_value").one().value == {"n": 1}
        assert session.execute(select(func.count()).select_from(XCom)).scalar() == 1
        session.query(TaskInstance).filter(TaskInstance.dag_id == "d").update({"state": "failed"})
        session.query(DagRun).one().state = "failed"
    assert (ti.state, run.state) == ("failed", "failed")


@pytest.mark.parametrize("how", ["query", "statement", "object", "run"])
def test_deleted_runs_are_gone(tmp_path: Path, how: str) -> None:
    DagRun, TaskInstance = names().DagRun, names().TaskInstance
    dag = dag_with(tmp_path, "return 1")
    run = dag.create_dagrun(run_id="r")
    run.get_task_instance("t").run()
    with open_session() as session:
        if how == "query":
            session.query(DagRun).filter(DagRun.dag_id.startswith("d")).delete(synchronize_session="fetch")
        elif how == "statement":
            session.execute(delete(DagRun))
        elif how == "object":
            session.delete(session.query(DagRun).one())
        else:
            session.delete(run)
    with open_session() as session:
        assert (session.query(DagRun).count(), session.query(TaskInstance).count()) == (0, 0)
    again = TaskInstance(dag.get_task("t"), run_id="r")
    assert (again.state, again.xcom_pull("t")) == (None, None)


def test_a_deleted_instance_has_not_run(tmp_path: Path) -> None:
    TaskInstance = names().TaskInstance
    run = dag_with(tmp_path, "return 1").create_dagrun()
    run.get_task_instance("t").run()
    with open_session() as session:
        session.query(TaskInstance).delete()
    assert run.get_task_instance("t").state is None


def test_a_run_is_written_down_and_given_to_an_instance(tmp_path: Path) -> None:
    import pendulum

    date = pendulum.datetime(2024, 5, 6)
    ti = names().TaskInstance(dag_with(tmp_path, "return 1").get_task("t"))
    ti.dag_run = names().DagRun(dag_id="d", run_id="mine", execution_date=date, run_type="manual", conf={"a": 1})

    context = ti.get_template_context()

    assert (ti.run_id, context["ds"], context["dag_run"].conf) == ("mine", "2024-05-06", {"a": 1})


def test_other_tables_have_rows_and_wrong_columns_are_named() -> None:
    from airflow.models.dagbundle import DagBundleModel  # type: ignore[import-not-found]

    with open_session() as session:
        session.merge(DagBundleModel(name="testing"))
        session.merge(DagBundleModel(name="testing"))
        session.add(names().Log(event="trigger", dag_id="d"))
        session.add(names().DagModel(dag_id="d", is_paused=False))
    with open_session() as session:
        assert session.get(names().DagModel, "d").is_paused is False
        assert session.query(DagBundleModel).count() == 1
        assert [one.event for one in session.query(names().Log)] == ["trigger"]
    assert (names().Pool.__tablename__, names().ImportError.__table__.name) == ("slot_pool", "import_error")
    with pytest.raises(TypeError, match="DagTag has no column 'nme'; it has name, dag_id"):
        names().DagTag(nme="x")


def test_a_mock_of_a_run_or_an_instance_has_its_columns() -> None:
    from unittest import mock

    for model, columns in {"DagRun": "conf run_id execution_date", "TaskInstance": "task_id start_date"}.items():
        for made in (mock.MagicMock(spec=getattr(names(), model)), mock.create_autospec(getattr(names(), model))):
            assert all(hasattr(made, column) for column in columns.split())
            assert not hasattr(made, "nothing")


def test_a_task_has_no_session_in_a_test_either(tmp_path: Path) -> None:
    body = "with create_session() as session:\n    session.query(DagRun).filter(DagRun.dag_id == 'd').delete()"
    dag = dag_with(tmp_path, body)
    with pytest.raises(Refused, match="There is no Airflow database behind this session"):
        dag.create_dagrun().get_task_instance("t").run()
    with pytest.raises(AioschedError, match="There is no Airflow database behind this session"):
        one_dag(tmp_path, DAG_FILE.replace("def work():", body + "\ndef work():").replace("BODY", "pass"))


def test_a_session_is_passed_on() -> None:
    from airflow.utils.session import provide_session

    @provide_session
    def add(key: str, session: Any = None) -> None:
        session.add(names().Variable(key, "1"))

    add("a")
    with open_session() as session:
        add("b", session=session)
        add("c", session)
        session.rollback()
    assert [names().Variable.get(key, None) for key in "abc"] == ["1", None, None]
