"""Commands with a living scheduler: `aiosched serve` in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.cli.conftest import Cli
from tests.cli.serving import living, stop
from tests.databases import Server

DAGS = """
import asyncio
from datetime import datetime
from aiosched import dag, task

@dag()
def quick():
    @task
    def say(dag_run=None):
        print("conf is", dag_run.conf)
    @task
    async def done(): ...
    say() >> done()

@dag(is_paused_upon_creation=True)
def paused():
    @task
    async def done(): ...
    done()

@dag()
def broken():
    @task
    async def fail():
        raise ValueError("boom")
    fail()

@dag()
def slow():
    @task
    async def sleep():
        await asyncio.sleep(600)
    sleep()

@dag()
def doomed():
    @task
    async def done(): ...
    done()

for dag_function in (quick, paused, broken, slow, doomed):
    dag_function()
"""


@pytest.fixture(scope="module")
def live(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """The command line beside a living scheduler that has parsed DAGS."""
    folder = tmp_path_factory.mktemp("live")
    (folder / "dags").mkdir()
    (folder / "dags" / "all.py").write_text(DAGS)
    with living(server, folder) as cli:
        yield cli


def test_a_trigger_makes_a_run_and_names_it(live: Cli) -> None:
    run = live.json("dags", "trigger", "quick", "--run-id", "mine", "-p", "day=1", "--conf", '{"day": 0, "x": "y"}')

    assert (run["run_id"], run["conf"], run["run_type"]) == ("mine", {"day": 1, "x": "y"}, "manual")


def test_a_trigger_with_wait_follows_the_run_to_its_end(live: Cli) -> None:
    result = live("dags", "trigger", "quick", "--wait", "-o", "json")

    assert json.loads(result.stdout)["state"] == "success"
    assert "2 success" in result.stderr


def test_a_trigger_with_wait_fails_when_the_run_fails(live: Cli) -> None:
    assert live.json("dags", "trigger", "broken", "--wait", code=1)["state"] == "failed"

    assert live.json("runs", "watch", "broken", "latest-failed", code=1)["counts"] == {"failed": 1}
    assert live.json("tasks", "show", "broken", "latest", "fail")["reason"] == "ValueError: boom"


def test_waiting_has_a_limit(live: Cli) -> None:
    result = live("dags", "trigger", "slow", "--run-id", "long", "--wait", "--timeout", "0.5", code=124)

    assert "Run long of slow is still running. It continues" in result.stderr
    assert live("runs", "watch", "slow", "long", "--timeout", "0.2", code=124).stdout == ""
    live("runs", "cancel", "slow", "long")


def test_a_logical_date_is_taken_once(live: Cli) -> None:
    run = live.json("dags", "trigger", "quick", "--logical-date", "2026-01-01T01:00:00+01:00")
    again = live("dags", "trigger", "quick", "-e", "2026-01-01", code=4)

    assert run["logical_date"] == "2026-01-01T00:00:00Z"
    assert "already" in again.stderr
    assert live.json("runs", "show", "quick", "2026-01-01")["run_id"] == run["run_id"]


@pytest.mark.parametrize("run_id", ["with space", "scheduled__2026-01-01"])
def test_a_run_id_that_may_not_be_is_refused(live: Cli, run_id: str) -> None:
    result = live("dags", "trigger", "quick", "--run-id", run_id, code=4)

    assert result.stderr.startswith("error: ")


def test_a_paused_dag_refuses_a_trigger_and_offers_to_unpause(live: Cli) -> None:
    refused = live("dags", "trigger", "paused", code=4)
    assert live.json("dags", "trigger", "paused", "--even-paused")["state"] == "queued"

    assert "DAG 'paused' is paused" in refused.stderr
    assert "--unpause" in refused.stderr
    assert live.json("dags", "trigger", "paused", "--unpause", "--wait")["state"] == "success"
    assert live.json("dags", "show", "paused")["is_paused"] is False


def test_pause_and_unpause_take_patterns_and_say_what_they_did(live: Cli) -> None:
    assert live.lines("dags", "pause", "qu*") == [["quick", "paused"]]
    assert live.lines("dags", "pause", "quick") == [["quick", "was paused already"]]
    assert live.lines("dags", "list", "quick")[0][1] == "paused"
    assert live.lines("dags", "unpause", "qui??") == [["quick", "unpaused"]]


def test_a_run_is_cancelled_once(live: Cli) -> None:
    live("dags", "trigger", "slow", "--run-id", "stop-me", "--wait", "--timeout", "1", code=124)

    live("runs", "cancel", "slow", "stop-me")
    again = live("runs", "watch", "slow", "stop-me", "--timeout", "20", code=1)

    assert "failed" in again.stdout
    assert "is failed already" in live("runs", "cancel", "slow", "stop-me", code=4).stderr


def test_the_log_of_a_task_is_shown_and_followed_to_its_end(live: Cli) -> None:
    live("dags", "trigger", "quick", "--run-id", "logged", "--wait", "-p", "a=1")

    for words in ((), ("--follow",), ("--try", "1")):
        assert "conf is {'a': 1}" in live("tasks", "logs", "quick", "logged", "say", *words).stdout
    assert "has no try 9" in live("tasks", "logs", "quick", "logged", "say", "--try", "9", code=3).stderr
    assert "wrote nothing" in live("tasks", "logs", "quick", "logged", "done").stderr


def test_schedulers_and_doctor_are_content(live: Cli) -> None:
    (scheduler,) = live.json("schedulers", "list")

    assert (scheduler["alive"], scheduler["partitions"], scheduler["executor"]) == (True, 64, "local")
    assert "1 of 1 schedulers alive" in live("schedulers", "check").stderr
    live("schedulers", "check", "--local")
    findings = [one for one in live.json("doctor") if one["check"] != "postgresql"]  # which depends on the day
    assert [finding["status"] for finding in findings] == ["ok"] * 4


def test_a_deleted_dag_is_gone_with_its_runs(live: Cli) -> None:
    live("dags", "trigger", "doomed", "--wait")

    asked = live("dags", "delete", "doomed", code=2)
    deleted = live.json("dags", "delete", "doomed", "--yes")

    assert "Add --yes" in asked.stderr
    assert deleted == {"dag_id": "doomed", "deleted": True}
    live("dags", "runs", "doomed", code=3)


def test_next_knows_that_an_unscheduled_dag_has_none(live: Cli) -> None:
    assert live("dags", "next", "quick").stderr == "DAG 'quick' has no upcoming scheduled run\n"


def test_ctrl_c_while_waiting_is_exit_code_130_and_leaves_the_run_alone(live: Cli) -> None:
    live("dags", "trigger", "slow", "--run-id", "left-alone", "--wait", "--timeout", "1", code=124)
    command = [sys.executable, "-m", "aiosched", "runs", "watch", "slow", "left-alone"]
    env = {**os.environ, "AIOSCHED_DSN": str(live.dsn)}

    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        assert watching.stderr is not None
        first = watching.stderr.readline()
        said = stop(watching, signal.SIGINT)

    assert first == "slow left-alone running: 1 running\n"
    assert (watching.returncode, said) == (130, "")
    assert live.json("runs", "show", "slow", "left-alone")["state"] == "running"
    live("runs", "cancel", "slow", "left-alone")
