"""`dags test`, `next` and `check`: files alone, no database."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from aiosched.core.graph.spec import DagSpec, content_hash, encode_spec
from aiosched.core.timetables import CronDataIntervalTimetable
from aiosched.db.server.engine import Database
from tests.cli.conftest import Cli
from tests.cli.records import NOON, add_dag, add_run

SALES = """
from datetime import datetime
from zoneinfo import ZoneInfo
from aiosched import dag, task

@dag(schedule="30 2 * * *", start_date=datetime(2026, 3, 1, tzinfo=ZoneInfo("Europe/Amsterdam")), catchup=True)
def sales():
    @task
    def extract(dag_run=None, logical_date=None):
        print("printed by a task")
        return {"day": str(logical_date.date()), **dag_run.conf}

    @task
    def load(rows):
        if rows.get("bad"):
            raise ValueError("bad rows")
        return rows

    load(extract())

sales()
"""

LATE = """
from datetime import datetime, timedelta
from aiosched import DAG, DeltaTriggerTimetable, EmptyOperator

with DAG("daily", schedule="@daily", start_date=datetime(9999, 12, 30), catchup=True):
    EmptyOperator(task_id="t")

every_21_hours = DeltaTriggerTimetable(timedelta(hours=21))
with DAG("often", schedule=every_21_hours, start_date=datetime(9999, 12, 30, 21), catchup=True):
    EmptyOperator(task_id="t")
"""

BROKEN = "from aiosched import dag\n\nprint('printed at import')\ndag_of_mine = undefined_name\n"


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("aiosched")
    before = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:], root.level, ours.level = before
    logging.captureWarnings(capture=False)


@pytest.fixture
def dags(tmp_path: Path) -> Path:
    """The DAGs folder with the file of `sales`."""
    folder = tmp_path / "dags"
    folder.mkdir()
    (folder / "sales.py").write_text(SALES)
    return folder


def test_a_run_in_this_process_ends_with_its_states_on_stdout_alone(cli: Cli, dags: Path) -> None:
    result = cli("dags", "test", "sales", "-o", "json")

    assert json.loads(result.stdout) == {
        "state": "success",
        "tasks": [
            {"task_id": "extract", "map_index": -1, "state": "success", "try_number": 1},
            {"task_id": "load", "map_index": -1, "state": "success", "try_number": 1},
        ],
    }
    assert "printed by a task" in result.stderr
    assert cli.lines("dags", "test", "sales")[1] == ["load", "success", "1", ""]


def test_a_failing_run_is_exit_code_1_and_says_why(cli: Cli, dags: Path) -> None:
    result = cli("dags", "test", "sales", "2026-11-20", "-p", "bad=true", code=1)

    assert result.stdout.splitlines()[1] == "load\tfailed\t1\tValueError: bad rows"
    assert result.stderr.endswith("sales: failed\n")


def test_mocked_tasks_do_not_run(cli: Cli, dags: Path) -> None:
    result = cli("dags", "test", "sales", "--mock", 'extract={"bad": 1}', code=1)

    assert "printed by a task" not in result.stderr
    assert [line.split("\t")[1] for line in result.stdout.splitlines()] == ["success", "failed"]


def test_one_task_can_run_alone(cli: Cli, dags: Path) -> None:
    assert [t["task_id"] for t in cli.json("dags", "test", "sales", "--task", "extract")["tasks"]] == ["extract"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("sale",), 3, "No file in ./dags defines the DAG 'sale'. Did you mean sales?"),
        (("sales", "--task", "lod"), 3, "DAG 'sales' has no task 'lod'. Did you mean load?"),
        (("sales", "--mock", "lod=1"), 3, "DAG 'sales' has no task 'lod'. Did you mean load?"),
        (("sales", "--mock", "load"), 2, "--mock load: write it as key=value."),
        (("sales", "yesterday"), 2, "DATE yesterday: write a date"),
        (("sales", "--dags", "nowhere"), 2, "There is no DAGs folder ./nowhere."),
    ],
)
def test_what_cannot_be_tested_is_said(cli: Cli, dags: Path, words: tuple[str, ...], code: int, said: str) -> None:
    assert said in cli("dags", "test", *words, code=code).stderr


def test_a_broken_file_that_mentions_the_dag_is_the_error(cli: Cli, dags: Path) -> None:
    (dags / "other.py").write_text(BROKEN.replace("mine", "costs"))

    broken = cli("dags", "test", "costs", code=1)
    missing = cli("dags", "test", "other", code=3)

    assert "other.py:4: NameError: name 'undefined_name' is not defined" in broken.stderr
    assert "> 4 | dag_of_costs = undefined_name" in broken.stderr
    assert "Not importable: other.py; see `aiosched dags check`." in missing.stderr


def test_a_broken_neighbour_does_not_matter(cli: Cli, dags: Path) -> None:
    (dags / "a.py").write_text(BROKEN)

    assert cli.json("dags", "test", "sales")["state"] == "success"


async def scheduled_sales(db: Database) -> None:
    """The daily DAG of SALES in the database; its last run was for 27 March."""
    spec = DagSpec(
        dag_id="sales",
        timetable=CronDataIntervalTimetable(cron="30 2 * * *", timezone="Europe/Amsterdam"),
        timezone="Europe/Amsterdam",
        start_date=NOON - timedelta(days=365),
        catchup=True,
    )
    version = await add_dag(db, "sales", is_paused=True)
    document = encode_spec(spec)
    await db.execute("UPDATE dag_version SET spec = $1, content_hash = $2", document.decode(), content_hash(document))
    start, end = NOON.replace(month=3, day=27, hour=1, minute=30), NOON.replace(month=3, day=28, hour=1, minute=30)
    await add_run(
        db, "sales", version, "scheduled__1", run_type="scheduled", triggered_by="timetable", logical_date=start,
        data_interval_start=start, data_interval_end=end,
    )  # fmt: skip


def test_the_next_runs_follow_the_last_one_and_note_clock_changes(on_db: Cli) -> None:
    on_db.work(scheduled_sales)

    result = on_db("dags", "next", "sales", "-n", "2")
    data = on_db.json("dags", "next-execution", "sales", "-n", "2")

    assert [line.split("\t") for line in result.stdout.splitlines()] == [
        [
            "2026-03-28T02:30:00+01:00",
            "2026-03-29T03:30:00+02:00",
            "2026-03-29T03:30:00+02:00",
            "24 h interval: clocks go forward, 02:30 becomes 03:30",
        ],
        [
            "2026-03-29T03:30:00+02:00",
            "2026-03-30T02:30:00+02:00",
            "2026-03-30T02:30:00+02:00",
            "",
        ],
    ]
    assert result.stderr == "sales is paused: no run is made before an unpause\n"
    assert data[0]["data_interval_end"] == data[0]["run_after"] == "2026-03-29T01:30:00Z"


def test_the_next_runs_of_a_file_need_no_database(cli: Cli, dags: Path) -> None:
    lines = cli.lines("dags", "next", "sales", "--dags", "dags", "-n", "2", "--tz", "UTC")

    assert [line[0] for line in lines] == ["2026-03-01T01:30:00+00:00", "2026-03-02T01:30:00+00:00"]


def test_the_next_runs_end_with_the_calendar(cli: Cli, dags: Path) -> None:
    (dags / "late.py").write_text(LATE)

    daily = cli.lines("dags", "next", "daily", "--dags", "dags")
    often = cli.lines("dags", "next", "often", "--dags", "dags", "--tz", "Asia/Tokyo")

    assert [line[0] for line in daily] == ["9999-12-30T00:00:00+00:00"]
    assert [line[0] for line in often] == ["9999-12-31T06:00:00+09:00", "9999-12-31T18:00:00+00:00"]


def test_check_lists_files_with_their_dags(cli: Cli, dags: Path) -> None:
    ((file, status, ids, time),) = cli.lines("dags", "check")

    assert (file, status, ids) == ("sales.py", "ok", "sales")
    assert time.endswith("s")
    assert cli.json("dags", "check", "dags/sales.py")[0]["dags"] == ["sales"]


def test_check_shows_the_line_of_an_error_and_is_exit_code_1(cli: Cli, dags: Path) -> None:
    (dags / "other.py").write_text(BROKEN)

    result = cli("dags", "check", code=1)

    assert "other.py:4: NameError: name 'undefined_name' is not defined" in result.stderr
    assert "> 4 | dag_of_mine = undefined_name" in result.stderr
    assert result.stdout.splitlines()[0].split("\t")[:2] == ["other.py", "error"]
    assert result.stderr.endswith("1 of 2 files have errors\n")
    assert cli.json("dags", "check", code=1)[0]["error"]["line"] == 4


def test_check_shows_warnings(cli: Cli, dags: Path) -> None:
    (dags / "sales.py").write_text(f"import warnings\nwarnings.warn('old spelling', DeprecationWarning)\n{SALES}")

    assert "warning: sales.py: " in (said := cli("dags", "check").stderr)
    assert "old spelling" in said


POOLED = """
from aiosched import DAG, EmptyOperator

with DAG("pooled"):
    EmptyOperator(task_id="a", pool="no_pool")
    EmptyOperator(task_id="b", pool="there")
    EmptyOperator(task_id="c")
"""


def test_check_names_pools_that_the_database_does_not_have(on_db: Cli, dags: Path) -> None:
    (dags / "pooled.py").write_text(POOLED)
    on_db("pools", "set", "there", "3")

    said = on_db("dags", "check").stderr

    assert "uses the pool 'no_pool', which does not exist: its tasks wait until `aiosched pools set no_pool" in said
    assert "'there'" not in said
    assert "default_pool" not in said


def test_check_says_that_pools_are_unknown_without_their_database(dags: Path) -> None:
    (dags / "pooled.py").write_text(POOLED)
    away = Cli("postgresql://nobody@127.0.0.1:1/none")

    said = away("dags", "check").stderr

    assert "warning: whether there are the pools no_pool, there is unknown: " in said


def test_check_names_what_the_code_of_tasks_does_wrong(cli: Cli, dags: Path) -> None:
    body = "    @task\n    async def a():\n        time.sleep(9)\n    a()\n"
    (dags / "blocks.py").write_text(f"from aiosched import dag, task\nimport time\n@dag\ndef d():\n{body}d()")

    assert "blocks.py:7: AuthoringWarning: `time.sleep(…)` in a blocks the event loop" in cli("dags", "check").stderr


def test_check_of_a_path_that_is_not_there_is_exit_code_3(cli: Cli, dags: Path) -> None:
    assert "There is no ./nowhere.py." in cli("dags", "check", "nowhere.py", code=3).stderr


def test_check_of_an_empty_folder_is_no_error(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "dags").mkdir()

    assert cli("dags", "check").stderr == "no DAG files here\n"


def test_check_and_doctor_name_what_of_plugins_and_policies_is_silently_off(on_db: Cli, dags: Path) -> None:
    """None of which has an effect here, and `dags check` of Airflow says nothing of it either."""
    (dags.parent / "plugins").mkdir()
    (dags.parent / "plugins" / "hbviews.py").write_text(
        "from airflow.plugins_manager import AirflowPlugin\n"
        "class Views(AirflowPlugin):\n    name = 'views'\n    flask_blueprints = [1]\n"
    )
    (dags.parent / "config").mkdir()
    (dags.parent / "config" / "airflow_local_settings.py").write_text("def pod_mutation_hook(pod): ...\n")

    for words in (["dags", "check", "--dags", str(dags)], ["doctor"]):
        result = on_db(*words, code=None)
        said = result.stdout + result.stderr
        assert "flask_blueprints of plugin 'views' has no effect: the web UI" in said
        assert "airflow_local_settings: pod_mutation_hook has no effect: pods of the executor" in said


def test_check_of_broken_policies_fails_for_every_file(cli: Cli, dags: Path) -> None:
    (dags / "airflow_local_settings.py").write_text("import nowhere_at_all\n")

    result = cli("dags", "check", "--dags", str(dags), code=1)

    assert "error: plugins: airflow_local_settings: cannot be imported" in result.stderr
    assert "The cluster policies are broken, so no DAG is read" in result.stderr
