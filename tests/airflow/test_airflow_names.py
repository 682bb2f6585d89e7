"""`import airflow`: every name of the tables, the same objects as aiosched's, and what an unknown name says."""

from __future__ import annotations

import contextlib
import inspect
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from packaging.version import Version

import aiosched
from aiosched.airflow import tables
from aiosched.airflow.hints import provider_package
from aiosched.airflow.objects.models import DagModel, Log
from aiosched.airflow.tables import MODULES
from aiosched.authoring.plugins.listeners import marked_functions
from aiosched.errors import Refused
from aiosched.exceptions import AirflowException

_PROVIDERS = "airflow.providers."
FOLDER = Path(tables.__file__).parent
NEEDED = re.compile(r"aiosched\[|airflow\.providers\.")  # something that is not installed here
LOCAL = [(module, name) for module, names in MODULES.items() for name, home in names.items() if _PROVIDERS not in home]
ELSEWHERE = [home for names in MODULES.values() for home in names.values() if home.startswith(_PROVIDERS)]


def test_each_name_of_the_tables_can_be_imported() -> None:
    def is_there(module: str, name: str) -> bool:
        try:
            return hasattr(import_module(module), name) or (name == "*" and bool(dir(import_module(module))))
        except ImportError as error:
            return "aiosched[" in str(error)  # an extra that is not installed here

    assert [f"{module}.{name}" for module, name in LOCAL if not is_there(module, name)] == []


@pytest.mark.parametrize("file", tables.FILES)
def test_a_table_is_sorted_and_has_the_homes_that_its_name_says(file: str) -> None:
    rows = [line.split("\t") for line in (FOLDER / file).read_text().splitlines()[1:]]

    assert rows == sorted(rows)
    assert {home.startswith(_PROVIDERS) for _, _, home in rows} == {file == "moved.tsv"}


def test_no_home_hides_an_arrow_to_a_room_above() -> None:
    homes = {home for names in (*MODULES.values(), *tables.reexported().values()) for home in names.values()}
    below = ("aiosched.airflow", "aiosched.authoring", "aiosched.core", "aiosched:", "aiosched.errors")
    faces = ("aiosched.exceptions:", "aiosched.timetables:", "aiosched.triggers:")  # of authoring, by name

    assert [home for home in homes if home.startswith("aiosched") and not home.startswith((*below, *faces))] == []


def test_what_modules_of_airflow_have_from_one_another_is_the_same_object_there() -> None:
    again = tables.reexported()
    rows = [line.split("\t") for line in (FOLDER / tables.REEXPORTED).read_text().splitlines()[1:]]

    assert rows == sorted(rows)
    assert len(rows) > 2000
    assert [(module, name) for module, name, _ in rows if name in MODULES.get(module, {})] == []
    wrong = []
    for module, names in again.items():
        for name, home in names.items():
            if not home.startswith(_PROVIDERS):
                place, colon, attribute = home.partition(":")
                value = getattr(import_module(place), attribute) if colon else import_module(place)
                try:
                    found = getattr(import_module(module), name)
                except ImportError as error:
                    found = value if NEEDED.search(str(error)) else None
                if found != value:
                    wrong.append(f"{module}.{name}")
    assert wrong == []


@pytest.mark.parametrize(
    "line",
    [
        "from airflow.models.taskinstance import Context",
        "from airflow.models.dag import ScheduleInterval, Context, timezone",
        "from airflow.operators.sensors import ExternalTaskSensor, TimeDeltaSensor, BaseSensorOperator",
        "from airflow.hooks import SqliteHook, BaseHook",
        "from airflow.hooks.filesystem import FSHook",
        "from airflow.operators.weekday import WeekDay",
        "from airflow.api.common.experimental.trigger_dag import trigger_dag",
        "from airflow.api.client.local_client import Client; Client(None, None)",
        "from airflow.models import DagTag, ImportError, Log, Pool, SlaMiss, TaskFail",
        "from airflow.models.xcom import LazyXComAccess; from airflow.utils.xcom import XCOM_RETURN_KEY",
        "from airflow.utils.file import mkdirs; from airflow.compat.functools import cached_property",
        "import airflow.decorators.python; airflow.decorators.python.PythonOperator",
        "from airflow.utils.db import provide_session; from airflow.utils.file import TemporaryDirectory",
        "from airflow.models.dag import DagStateChangeCallback; from airflow.utils import apply_defaults",
        "from airflow.models.baseoperator import TaskStateChangeCallback; from airflow.jobs.base_job import BaseJob",
        "from airflow.models.abstractoperator import TaskStateChangeCallback; from airflow.jobs.job import Job",
        "from airflow.exceptions import DeserializingResultError as E; assert issubclass(E, ValueError)",
        "from airflow.configuration import AirflowConfigParser, conf; assert isinstance(conf, AirflowConfigParser)",
        "from airflow.triggers.testing import FailureTrigger, SuccessTrigger",
        "from airflow.task.trigger_rule import TriggerRule; TriggerRule.ALL_DONE",
        "from airflow.sdk.bases.operator import OperatorPartial; from airflow.models.xcom_arg import PlainXComArg",
        "from airflow.sdk.execution_time.context import TriggeringAssetEventsAccessor",
        "from airflow.www import utils; assert 'postgresql' in utils.get_attr_renderer()",
        "from airflow.settings import SASession",
        "from airflow.decorators import branch_task, task, teardown, teardown_task; assert branch_task is task.branch",
        "from airflow.decorators.python_virtualenv import virtualenv_task; assert callable(virtualenv_task)",
        "from airflow.example_dags.subdags.subdag import subdag; assert len(subdag('a', 'b', {}).tasks) == 5",
    ],
)
def test_names_are_where_people_import_them_from(line: str) -> None:
    exec(line, {})


@pytest.mark.usefixtures("production")
def test_columns_of_tables_can_be_named_and_decide_nothing() -> None:
    from airflow.jobs.base_job import BaseJob
    from airflow.models import DagRun, TaskInstance, TaskReschedule, XCom

    for column in (
        DagModel.last_parsed_time, Log.dttm, DagRun.dag_id, DagRun.execution_date, DagRun.external_trigger.is_(False),
        TaskInstance.start_date, TaskReschedule.execution_date, XCom.execution_date, Log.dttm.desc(), Log.dttm < 1,
        BaseJob.latest_heartbeat, DagRun.dag_id == "d", DagRun.dag_id != "d", DagRun.dag_id | True,
        DagRun.state.in_(["failed"]), TaskInstance.state == "failed",
    ):  # fmt: skip
        decisions: list[Any] = [bool, list, lambda it: "d" in [it], lambda it: not it, lambda it: it()]
        for decide in decisions:
            with pytest.raises(Refused, match="is a column of Airflow's database"):
                decide(column)


def test_a_table_that_a_listener_imports_is_none_of_its_functions() -> None:
    from airflow.models import DagRun, TaskInstance

    assert list(marked_functions(SimpleNamespace(DagRun=DagRun, TaskInstance=TaskInstance, Log=Log))) == []


def test_spans_of_tasks_are_accepted() -> None:
    from airflow.traces import otel_tracer
    from airflow.traces.tracer import Trace

    tracer = otel_tracer.get_otel_tracer_for_task(Trace)

    with tracer.start_child_span("a", component="c") as span:
        span.set_attribute("rows", 1)
        assert not span.is_recording()
    assert tracer.extract(tracer.inject()) is None


def test_what_only_a_wheel_of_airflow_makes_up_is_refused() -> None:
    with pytest.raises(ImportError, match=r"No module named 'airflow\.models\.nothing'|cannot import name"):
        exec("from airflow.models.nothing import Context", {})
    with pytest.raises(ImportError, match=r"cannot import name 'Contexts' from 'airflow\.models\.taskinstance'"):
        exec("from airflow.models.taskinstance import Contexts", {})


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("airflow.models\tDAG", "line 2: 'airflow.models\\tDAG': a row has module, name, home"),
        ("airflow.models DAG aiosched:DAG", "line 2: 'airflow.models DAG aiosched:DAG': a row has module, name, home"),
        ("airflow.models\tDAG\taiosched:DAG\t", "line 2"),
        ("airflow.models\t\taiosched:DAG", "line 2"),
        ("", "line 2"),
        ("module\tname\thome", "line 2"),
        ("airflow\tDAG\taiosched:DAG\nairflow\tDAG\taiosched:dag", "line 3: DAG of airflow has a row already"),
        ("airflow\tHdfs\taiosched:DAG", "line 2: Hdfs of airflow has a row already"),
    ],
)
def test_what_is_no_row_of_a_table_names_file_and_line(tmp_path: Path, row: str, message: str) -> None:
    (tmp_path / "here.tsv").write_text(f"module\tname\thome\n{row}\n")
    (tmp_path / "moved.tsv").write_text("module\tname\thome\nairflow\tHdfs\tairflow.providers.apache.hdfs:Hdfs\n")

    with pytest.raises(ValueError, match=r"(here|moved)\.tsv, " + re.escape(message)):
        tables.read(tmp_path)


def test_a_table_without_its_header_is_none(tmp_path: Path) -> None:
    (tmp_path / "here.tsv").write_text("airflow\tDAG\taiosched:DAG\n")

    with pytest.raises(ValueError, match=r"here\.tsv, line 1: .* the first line is module, name, home"):
        tables.read(tmp_path)


def test_each_home_in_a_provider_package_is_a_name_in_a_module() -> None:
    assert [home for home in ELSEWHERE if not re.fullmatch(r"airflow\.providers(\.\w+)+(:\w+)?", home)] == []
    packages = {provider_package(home.partition(":")[0]) for home in ELSEWHERE}
    assert {"apache-airflow-providers-google", "apache-airflow-providers-apache-hive"} <= packages
    assert None not in packages


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
            "`aiosched providers install apache-airflow-providers-google==",
        ),
        ("import airflow.providers.acme.hooks", "If it is one of your own"),
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


def test_what_older_modules_defined_is_where_their_operators_are_today() -> None:
    homes = {module: {home.partition(":")[0] for home in names.values()} for module, names in MODULES.items()}

    for module, name in [
        ("airflow.contrib.operators.sftp_operator", "SFTPOperation"),
        ("airflow.contrib.operators.databricks_operator", "XCOM_RUN_ID_KEY"),
        ("airflow.contrib.sensors.gcs_sensor", "ts_function"),
        ("airflow.hooks.presto_hook", "PrestoException"),
    ]:
        home = MODULES[module][name]
        assert home.partition(":")[0] in homes[module]
        assert home.endswith(f":{name}")


def test_each_public_name_of_airflow_is_answered_or_has_a_remedy() -> None:
    again, unanswered, used = tables.reexported(), [], set()
    for line in Path(__file__).with_name("public_names.tsv").read_text().splitlines():
        module, names = line.split("\t")
        for name in names.split():
            here = MODULES.get(module, {})
            if (
                not {name, "*"} & here.keys()
                and f"{module}.{name}" not in MODULES
                and name not in again.get(module, {})
            ):
                parts = f"{module}.{name}".split(".")
                place = next(
                    (p for n in range(len(parts), 1, -1) if (p := ".".join(parts[:n])) in tables.absent()), None
                )
                used.add(place)
                unanswered.append(f"{module}.{name}") if place is None else None

    assert unanswered == []
    assert len(used) > 50


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("from airflow.www.app import cached_app", "The web UI is aiosched's own"),
        ("from airflow.jobs.scheduler_job import SchedulerJob", "`aiosched schedulers`"),
        ("from airflow.models.chart import Chart", "docs/api.md"),
        ("from airflow.models.pool import PoolStats", "`aiosched pools`"),
        ("from airflow.settings import configure_orm", "no database of Airflow"),
        ("from airflow.lineage.backend import LineageBackend", "inlets and outlets"),
        ("from airflow.models.taskinstance import find_relevant_relatives", "In Airflow it is for Airflow itself"),
        ("import airflow.nothing.at_all", "See docs/airflow.md for what is answered"),
    ],
)
def test_what_is_not_here_says_what_to_use_instead(line: str, words: str) -> None:
    with pytest.raises(ImportError, match=re.escape(words)):
        exec(line, {})


@pytest.mark.parametrize(
    "line",
    [
        "from airflow.executors.local_executor import LocalExecutor; LocalExecutor(parallelism=3)",
        "from airflow.executors import get_default_executor; get_default_executor()",
        "from airflow.exceptions import SerializedDagNotFound, AirflowException; raise SerializedDagNotFound('x')",
        "from airflow.hooks.subprocess import SubprocessHook as H; assert H().run_command(['echo', 'a']) == (0, 'a')",
        "from airflow.hooks.subprocess import SubprocessHook as H; assert H().run_command(['false']).exit_code == 1",
        "from airflow.lineage.entities import File, Table; Table(database='d', cluster='c', name='n').tags",
        "from airflow.utils.email import get_email_address_list as g; assert g('a@b, c@d;e') == ['a@b', 'c@d', 'e']",
        "from airflow.utils.state import TerminalTIState as T; assert T.FAILED == 'failed'",
        "from airflow.utils.types import DagRunTriggeredByType as T; assert T.CLI == 'cli'",
    ],
)
def test_names_that_files_use_are_answered(line: str) -> None:
    with contextlib.suppress(AirflowException):
        exec(line, {})
