"""Clearing, marking, backfills, `tasks render` and `tasks test` from the command line, with a living scheduler."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiosched.db.crypto.keyring import new_key
from tests.cli.conftest import Cli
from tests.cli.serving import living
from tests.databases import Server

DAGS = """
from datetime import UTC, datetime
from aiosched import DAG, BashOperator, dag, task

@dag(params={"n": 1})
def steps():
    @task
    async def first():
        return "one"
    @task
    async def second(before): ...
    second(first())

@dag()
def broken():
    @task
    async def fail():
        raise ValueError("boom")
    @task
    async def after(): ...
    fail() >> after()

@dag(schedule="@daily", start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=False, is_paused_upon_creation=True)
def daily():
    @task
    async def work(): ...
    work()

@dag(schedule="@daily", start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=False)
def failing():
    @task
    async def work():
        raise ValueError("boom")
    work()

with DAG("shown"):
    BashOperator(
        task_id="say",
        bash_command="echo {{ ds }} {{ params.get('x') or dag_run.conf.x }} {{ var.value.greeting }}",
        env={"API_TOKEN": "{{ var.value.api_token }}"},
    )

for dag_function in (steps, broken, daily, failing):
    dag_function()
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("changing")
    (folder / "dags").mkdir()
    (folder / "dags" / "all.py").write_text(DAGS)
    return folder


@pytest.fixture(scope="module")
def live(server: Server, place: Path) -> Iterator[Cli]:
    """The command line beside a living scheduler that has parsed DAGS."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(*KEY)
        with living(server, place) as cli:
            yield cli


KEY = ("AIOSCHED__SECRETS__FERNET_KEYS", new_key())


@pytest.fixture
def dags(place: Path) -> list[str]:
    return ["--dags", str(place / "dags")]


def ended(live: Cli, dag_id: str, run_id: str) -> str:
    """The state in which a run has ended."""
    return str(live.json("runs", "watch", dag_id, run_id, code=1 if dag_id == "broken" else 0)["state"])


@pytest.fixture(scope="module")
def some_run(live: Cli) -> None:
    """The DAG `steps` has had a run."""
    live("dags", "trigger", "steps", "--run-id", "some", "--wait")


# -- clear --------------------------------------------------------------------------------------


def test_tasks_clear_runs_tasks_again(live: Cli) -> None:
    live("dags", "trigger", "steps", "--run-id", "again", "--wait")

    result = live("tasks", "clear", "steps", "--run", "again", "--task", "^second$", "--yes", "-o", "json")

    answer = json.loads(result.stdout)
    assert (answer["count"], answer["runs"], answer["states"]) == (1, ["again"], {"success": 1})
    assert "cleared 1 task instance in 1 run (1 success)" in result.stderr
    assert ended(live, "steps", "again") == "success"
    tries = {task: live.json("tasks", "show", "steps", "again", task)["try_number"] for task in ("first", "second")}
    assert tries == {"first": 1, "second": 2}


def test_a_dry_run_shows_what_would_be_cleared_and_changes_nothing(live: Cli) -> None:
    live("dags", "trigger", "broken", "--run-id", "looked_at", "--wait", code=1)

    result = live("tasks", "clear", "broken", "-r", "looked_at", "--only-failed", "--dry-run")

    assert [line.split("\t") for line in result.stdout.splitlines()] == [
        ["looked_at", "fail", "failed", "1"],
        ["looked_at", "after", "upstream_failed", "0"],
    ]
    assert "would clear 2 task instances in 1 run (1 failed, 1 upstream_failed)" in result.stderr
    assert live.json("runs", "show", "broken", "looked_at")["state"] == "failed"


def test_an_action_on_many_is_applied_to_each_dag(live: Cli) -> None:
    live("dags", "trigger", "steps", "--run-id", "many", "--wait")
    live("dags", "trigger", "broken", "--run-id", "many", "--wait", code=1)

    noted = live("runs", "bulk", "note", "--note", "looked at", "--type", "manual", "--since", "1h", "--yes")
    marked = live(
        "tasks", "bulk", "mark", "--to", "success", "--dag", "broken", "--state", "failed", "--yes", "-o", "json"
    )

    assert "noted" in noted.stderr
    assert "of 2 DAGs" in noted.stderr
    assert live.json("runs", "show", "steps", "many")["note"] == "looked at"
    answer = json.loads(marked.stdout)
    assert (answer["dags"], answer["refused"], answer["waiting"]) == (1, [], 0)
    assert live.json("tasks", "show", "broken", "many", "fail")["state"] == "success"


def test_where_nobody_can_be_asked_a_clear_needs_yes(live: Cli) -> None:
    live("dags", "trigger", "steps", "--run-id", "asked", "--wait")

    refused = live("tasks", "clear", "steps", "--run", "asked", code=2)

    assert "Clear 2 task instances in 1 run (2 success) of steps? Add --yes" in refused.stderr
    assert live.json("tasks", "show", "steps", "asked", "first")["try_number"] == 1


def test_a_clear_that_means_nothing_says_so(live: Cli) -> None:
    live("dags", "trigger", "steps", "--run-id", "fine", "--wait")

    result = live("tasks", "clear", "steps", "--run", "fine", "--only-failed", "--yes")

    assert result.stdout == ""
    assert "nothing matches" in result.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("tasks", "clear", "ghost", "--yes"), 3, "no DAG 'ghost'"),
        (("tasks", "clear", "steps", "--run", "ghost", "--yes"), 3, "ghost"),
        (("tasks", "clear", "steps", "--task", "(", "--yes"), 4, "cannot be used"),
        (("tasks", "clear", "steps", "--from", "yesterday"), 2, "--from yesterday: write a date"),
        (("tasks", "mark", "steps", "ghost", "first", "success"), 3, "ghost"),
        (("tasks", "mark", "steps", "latest", "ghost", "success"), 4, "no task or task group 'ghost'"),
        (("tasks", "mark", "steps", "latest", "first", "running"), 2, "running"),
        (("runs", "mark", "steps", "ghost", "failed"), 3, "ghost"),
        (("runs", "mark", "steps", "latest", "running"), 2, "running"),
    ],
    ids=str,
)
def test_what_cannot_be_cleared_or_marked(
    live: Cli, some_run: None, words: tuple[str, ...], code: int, said: str
) -> None:
    assert said in live(*words, code=code).stderr


def test_runs_clear_runs_a_whole_run_again(live: Cli) -> None:
    live("dags", "trigger", "steps", "--run-id", "whole", "--wait")

    assert live.json("runs", "clear", "steps", "whole", "--yes")["count"] == 2

    assert ended(live, "steps", "whole") == "success"
    assert live.json("tasks", "show", "steps", "whole", "first")["try_number"] == 2


def test_airflows_options_of_tasks_clear_are_understood(live: Cli) -> None:
    live("dags", "trigger", "steps", "--logical-date", "2026-02-01", "--wait")

    answer = live.json(
        "tasks", "clear", "steps", "-s", "2026-02-01", "--end-date=2026-02-02", "-t", "first", "--dry-run"
    )

    assert [one["task_id"] for one in answer["instances"]] == ["first"]


# -- notes --------------------------------------------------------------------------------------


def test_notes_are_written_shown_and_kept_by_a_clear(live: Cli) -> None:
    live("dags", "trigger", "steps", "--run-id", "noted", "--wait")

    said = live("runs", "note", "steps", "noted", "for the auditors")
    live("tasks", "note", "steps", "noted", "second", "slow disk")
    live("runs", "clear", "steps", "noted", "--yes")

    assert said.stderr == "the note about run noted of steps is set\n"
    assert ["note", "for the auditors"] in live.lines("runs", "show", "steps", "noted")
    assert [task["note"] for task in live.json("runs", "show", "steps", "noted")["tasks"]] == [None, "slow disk"]
    assert ["note", "slow disk"] in live.lines("tasks", "show", "steps", "noted", "second")
    assert live.json("runs", "note", "steps", "noted", "")["note"] is None
    assert "1000 are the most" in live("runs", "note", "steps", "noted", "x" * 1001, code=4).stderr


# -- mark ---------------------------------------------------------------------------------------


def test_tasks_mark_lets_what_failed_behind_it_run(live: Cli) -> None:
    live("dags", "trigger", "broken", "--run-id", "rescued", "--wait", code=1)
    preview = live("tasks", "mark", "broken", "rescued", "fail", "success", "--dry-run")
    assert "would mark 1 task instance in 1 run (1 failed)" in preview.stderr

    result = live("tasks", "mark", "broken", "rescued", "fail", "success", "-o", "json")

    assert json.loads(result.stdout)["count"] == 1
    assert "marked success: 1 task instance" in result.stderr
    assert live.json("runs", "watch", "broken", "rescued")["state"] == "success"
    assert live.json("tasks", "show", "broken", "rescued", "after")["state"] == "success"


def test_past_and_future_reach_the_runs_before_and_after(live: Cli) -> None:
    for day in (3, 4, 5):
        live("dags", "trigger", "steps", "--logical-date", f"2026-03-0{day}", "--run-id", f"m{day}", "--wait")

    past = live.json("tasks", "mark", "steps", "m4", "first", "skipped", "--past", "--dry-run")
    future = live.json(
        "tasks", "clear", "steps", "-r", "m4", "-t", "first", "--future", "--prevent-running", "--dry-run"
    )
    marked = live.json("tasks", "mark", "steps", "2026-03-05", "second", "skipped", "--upstream")

    assert {"m3", "m4"} <= set(past["runs"])
    assert "m5" not in past["runs"]
    assert future["runs"] == ["m4", "m5"]
    assert [one["task_id"] for one in marked["instances"]] == ["first", "second"]
    live("dags", "trigger", "steps", "--run-id", "dateless", "--wait")
    refused = live("tasks", "mark", "steps", "dateless", "first", "skipped", "--future", code=4)
    assert "'dateless' has no logical date" in refused.stderr


def test_runs_mark_gives_a_run_a_state(live: Cli) -> None:
    live("dags", "trigger", "broken", "--run-id", "forgiven", "--wait", code=1)

    result = live("runs", "mark", "broken", "forgiven", "success", "-o", "json")

    assert json.loads(result.stdout) == {"run_id": "forgiven", "state": "success"}
    assert live.json("runs", "show", "broken", "forgiven")["state"] == "success"


# -- backfill -----------------------------------------------------------------------------------


def test_a_backfill_is_looked_at_created_and_followed_to_its_end(live: Cli) -> None:
    live("dags", "unpause", "daily")
    dates = ("--from", "2026-01-03", "--to", "2026-01-05")
    preview = live("backfill", "create", "daily", *dates, "--dry-run")
    assert preview.stdout.splitlines()[0] == "2026-01-03T00:00:00+00:00\tcreate"
    assert "would be: 3 create" in preview.stderr

    result = live("backfill", "create", "daily", *dates, "--max-active", "1", "--watch", "-o", "json")

    row = json.loads(result.stdout)
    assert (row["total"], row["finished"], row["failed"], row["max_active_runs"]) == (3, 3, 0, 1)
    assert row["completed_at"] is not None
    shown = live.json("backfill", "show", str(row["id"]))
    assert shown == row
    assert [one["id"] for one in live.json("backfill", "list", "--dag", "daily")] == [row["id"]]
    again = live.json("backfill", "create", "daily", *dates, "--rerun", "failed")
    assert {date["fate"] for date in again["dates"]} == {"already exists"}


def test_a_backfill_with_a_failed_run_exits_1_when_it_was_followed(live: Cli) -> None:
    dates = ("--from", "2026-01-03", "--to", "2026-01-04")

    row = live.json("backfill", "create", "failing", *dates, "--watch", code=1)

    assert row["failed"] == 2


def test_a_backfill_can_be_paused_resumed_and_cancelled(live: Cli) -> None:
    live("dags", "pause", "daily")
    dates = ("--from", "2026-02-03", "--to", "2026-02-05")
    number = str(live.json("backfill", "create", "daily", *dates)["id"])

    assert f"paused backfill {number}" in live("backfill", "pause", number).stderr
    assert live.json("backfill", "pause", number) == {"backfill": int(number), "state": "paused"}
    assert live.lines("backfill", "list", "--dag", "daily")[0][2] == "paused"
    late = live("backfill", "create", "daily", *dates, code=4)
    assert "unfinished backfill" in late.stderr
    assert f"resumed backfill {number}" in live("backfill", "resume", number).stderr
    assert live.json("backfill", "resume", number) == {"backfill": int(number), "state": "running"}
    assert live.lines("backfill", "list", "--dag", "daily")[0][2] == "running"
    cancelled = live("backfill", "cancel", number, "-o", "json")
    assert f"cancelled backfill {number}, 3 queued runs failed" in cancelled.stderr
    assert json.loads(cancelled.stdout) == {"backfill": int(number), "state": "cancelled", "failed": 3}
    assert live.lines("backfill", "list", "--dag", "daily")[0][2] == "cancelled"
    assert live("backfill", "cancel", number, code=3)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("create", "ghost", "--from", "2026-01-01", "--to", "2026-01-02"), 3, "no DAG 'ghost'"),
        (("create", "steps", "--from", "2026-01-01", "--to", "2026-01-02"), 4, "has no dates to backfill"),
        (("create", "daily", "--from", "2026-01-02", "--to", "2026-01-01"), 4, "swap the two dates"),
        (("create", "daily", "--from", "soon", "--to", "2026-01-01"), 2, "--from soon: write a date"),
        (("create", "daily", "--from", "2026-01-01", "--to", "2026-01-02", "--max-active", "0"), 2, "max-active"),
        (("create", "daily", "--from", "2026-01-01", "--to", "2026-01-02", "--rerun", "some"), 2, "rerun"),
        (("show", "12345"), 3, "no backfill 12345"),
        (("pause", "12345"), 3, "no backfill 12345"),
    ],
    ids=str,
)
def test_a_backfill_that_cannot_be(live: Cli, words: tuple[str, ...], code: int, said: str) -> None:
    assert said in live("backfill", *words, code=code).stderr


def test_following_a_backfill_has_a_limit(live: Cli) -> None:
    live("dags", "pause", "daily")
    dates = ("--from", "2026-03-03", "--to", "2026-03-03")

    result = live("backfill", "create", "daily", *dates, "--watch", "--timeout", "0.5", code=124)

    assert "continues; see `aiosched backfill show" in result.stderr
    live("backfill", "cancel", str(live.json("backfill", "list", "--dag", "daily")[0]["id"]))


def test_airflows_spellings_of_a_backfill_are_understood(live: Cli) -> None:
    dates = {"from": "2026-04-03", "to": "2026-04-04"}
    three = ("--from-date", dates["from"], f"--to-date={dates['to']}", "--reprocess-behavior", "none")

    assert len(live.json("backfill", "create", "daily", *three, "--dry-run", "--run-backwards")["dates"]) == 2
    two = live.json("dags", "backfill", "daily", "-s", dates["from"], "-e", dates["to"], "--dry-run")
    assert [date["fate"] for date in two["dates"]] == ["create", "create"]
    assert "dags backfill" not in live("dags", "--help").stdout


# -- render and test ----------------------------------------------------------------------------


def test_tasks_render_shows_the_template_fields_of_a_run_with_secrets_hidden(
    live: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(*KEY)
    live("variables", "set", "greeting", "hello")
    live("variables", "set", "api_token", "s3cr3t-value")
    live("dags", "trigger", "shown", "--logical-date", "2026-05-01", "-p", "x=7", "--wait")

    fields: dict[str, Any] = live.json("tasks", "render", "shown", "2026-05-01", "say")

    assert fields["bash_command"] == "echo 2026-05-01 7 hello"
    assert fields["env"] == {"API_TOKEN": "***"}
    assert live.json("tasks", "show", "shown", "2026-05-01", "say")["try_number"] == 1


def test_tasks_render_fills_in_what_other_tasks_returned(live: Cli) -> None:
    live("dags", "trigger", "steps", "--run-id", "rendered", "--wait")

    fields = live.json("tasks", "render", "steps", "rendered", "second")

    assert "one" in json.dumps(fields)


def test_tasks_render_of_what_is_not_there(live: Cli, some_run: None) -> None:
    assert "ghost" in live("tasks", "render", "steps", "ghost", "first", code=3).stderr
    assert "ghost" in live("tasks", "render", "steps", "latest", "ghost", code=3).stderr


def test_tasks_test_runs_one_task_without_a_database(cli: Cli, dags: list[str]) -> None:
    assert cli.json("tasks", "test", "steps", "first", *dags) == {
        "state": "success",
        "tasks": [{"task_id": "first", "map_index": -1, "state": "success", "try_number": 1}],
    }
    failed = cli.json("tasks", "test", "broken", "fail", "2026-01-01", *dags, code=1)
    assert failed["state"] == "failed"
    assert "no task 'ghost'" in cli("tasks", "test", "steps", "ghost", *dags, code=3).stderr


# -- schedules that are data --------------------------------------------------------------------


def test_a_schedule_is_set_listed_paused_resumed_and_removed(live: Cli) -> None:
    made = live("schedules", "set", "steps", "t-7", "--every", "1e6", "--start", "2100-01-01", "-p", "n=7")
    assert made.stderr == "set schedule t-7 of steps; next run 2100-01-01T00:00:00+00:00\n"
    live("schedules", "pause", "steps", "t-7", "--reason", "no money")
    (shown,) = live.json("schedules", "list", "--dag", "steps")
    assert (shown["name"], shown["every"], shown["is_paused"], shown["conf"]) == ("t-7", 1e6, True, {"n": 7})
    live("schedule", "resume", "steps", "t-7")
    assert live.lines("schedules", "list")[-1][:4] == ["steps", "t-7", "every 1e+06 s", "no"]
    assert live("schedules", "remove", "steps", "t-7").stderr == "removed schedule t-7 of steps\n"

    assert "has no schedule 't-7'" in live("schedules", "remove", "steps", "t-7", code=3).stderr
    assert "one of cron, every and at" in live("schedules", "set", "steps", "t-7", code=4).stderr
    assert "every 0.1 seconds at most" in live("schedules", "set", "steps", "t-7", "--every", "0", code=4).stderr


def test_a_schedule_by_hand_starts_its_run(live: Cli) -> None:
    live("schedules", "set", "steps", "once", "--at", "2026-01-02T03:00Z")

    assert ended(live, "steps", "once__2026-01-02T03:00:00+00:00") == "success"
    live("schedules", "remove", "steps", "once")
