"""Values that no option can mean: one line says so, with exit code 2, 3 or 4, and nothing is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.cli.records import add_dag

LARGE = "99999999999"  # more than 32 bits
HUGE = "99999999999999999999"  # more than 64 bits
EARLY, LATE = "0001-01-01T00:00+14:00", "9999-12-31T23:59:59-12:00"

DAILY = """
from datetime import datetime
from aiosched import DAG, EmptyOperator

with DAG("daily", schedule="@daily", start_date=datetime(2026, 1, 1)):
    EmptyOperator(task_id="t")
"""


@pytest.mark.parametrize(
    "words",
    [
        ("backfill", "show", HUGE),
        ("backfill", "pause", HUGE),
        ("backfill", "create", "sales", "--from", "2026-01-01", "--to", "2026-01-02", "--max-active", LARGE),
        ("requests", "show", HUGE),
        ("requests", "withdraw", HUGE),
        ("tokens", "revoke", HUGE),
        ("alerts", "acknowledge", HUGE),
        ("alerts", "unsilence", HUGE),
        ("alerts", "silence", "--alert", HUGE, "--for", "1h", "--reason", "x"),
        ("audit", "export", "--after", HUGE),
        ("runs", "show", "sales", "-n", HUGE),
        ("tasks", "clear", "sales", "--map-index", LARGE, "--dry-run"),
        ("tasks", "logs", "sales", "r1", "t", "--map-index", LARGE),
        ("tasks", "logs", "sales", "r1", "t", "--try", LARGE),
        ("tasks", "note", "sales", "r1", "t", "text", "--map-index", LARGE),
        ("tasks", "xcoms", "sales", "r1", "t", "--map-index", LARGE),
        ("why", "sales", "r1", "t", "--map-index", LARGE),
        ("serve", "--run-duration", "-5"),
    ],
    ids=" ".join,
)
def test_a_number_out_of_range_is_named_with_the_range(cli: Cli, words: tuple[str, ...]) -> None:
    assert "Input should be " in cli(*words, code=2).stderr


@pytest.mark.parametrize("edge", [EARLY, LATE])
@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("dags", "trigger", "sales"), "--logical-date"),
        (("dags", "trigger", "sales"), "--run-after"),
        (("runs", "list"), "--since"),
        (("backfill", "create", "sales", "--to", "2026-01-02"), "--from"),
        (("simulate", "--to", "2026-01-02"), "--from"),
        (("db", "clean", "--dry-run"), "--before"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_an_instant_outside_the_calendar_is_refused(cli: Cli, words: tuple[str, ...], option: str, edge: str) -> None:
    said = cli(*words, option, edge, code=2).stderr

    assert f"{option} {edge} is not in the years 1 to 9999 in UTC: give another instant." in said


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("runs", "list"), "--longer-than"),
        (("tasks", "instances"), "--shorter-than"),
        (("runs", "list"), "--since"),
        (("simulate", "--from", "2026-01-01", "--to", "2026-01-02"), "--task-duration"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_duration_that_nothing_can_last_is_refused(cli: Cli, words: tuple[str, ...], option: str) -> None:
    assert f"{option} {HUGE}m is too long" in cli(*words, option, f"{HUGE}m", code=2).stderr


def test_the_longest_duration_and_the_first_instant_choose_nothing(on_db: Cli) -> None:
    assert on_db("runs", "list", "--longer-than", "999999999d").stderr == "no such runs\n"
    assert "nothing is older than 0001-01-01" in on_db("db", "clean", "--before", "0001-01-01", "--dry-run").stderr


def test_numbers_that_nothing_has_are_not_found(on_db: Cli) -> None:
    most = str(2**63 - 1)
    for words in (("backfill", "show"), ("requests", "show"), ("requests", "withdraw"), ("tokens", "revoke")):
        assert most in on_db(*words, most, code=3).stderr


@pytest.mark.parametrize(
    "words", [("dags", "show"), ("variables", "get"), ("runs", "show", "sales"), ("runs", "list", "--dag")]
)
def test_text_that_is_not_utf8_is_no_name(on_db: Cli, words: tuple[str, ...]) -> None:
    assert "error: '\\udcff' is not UTF-8" in on_db(*words, "\udcff", code=2).stderr


def test_more_slots_than_can_be_stored_are_refused(on_db: Cli) -> None:
    assert f"at most 2,147,483,647 slots, not {LARGE}" in on_db("pools", "set", "big", LARGE, code=4).stderr
    on_db("pools", "set", "big", "2147483647")


@pytest.mark.parametrize("name", ["", "a\nb", "a\x1b[31mb", "x" * 251])
def test_a_pool_has_a_name_that_can_be_printed(on_db: Cli, name: str) -> None:
    assert "A pool's name has 1 to 250 printable characters." in on_db("pools", "set", name, "1", code=4).stderr


@pytest.mark.parametrize("role", ["web", "worker-api"])
def test_a_server_alone_is_never_idle(cli: Cli, role: str) -> None:
    said = cli("serve", "--role", role, "--until-idle", code=2).stderr

    assert f"--until-idle: {role} alone is never idle; name the role scheduler or parser, too." in said


def test_without_its_only_role_nothing_is_left_to_run(cli: Cli) -> None:
    said = cli("serve", "--role", "web", "--no-web", code=2).stderr

    assert "--no-web leaves no role to run; name the role scheduler or parser, too." in said


@pytest.mark.parametrize("file", [".", "..", "/"])
def test_a_backup_into_a_folder_needs_the_name_of_a_file(on_db: Cli, file: str) -> None:
    assert f"{file} is a folder: name a file in it." in on_db("db", "backup", file, code=4).stderr


def test_a_conf_that_json_cannot_hold_is_refused_by_tests_of_dags_too(on_db: Cli, tmp_path: Path) -> None:
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "daily.py").write_text(DAILY)
    on_db.work(lambda db: add_dag(db, "daily"))

    for words in (("dags", "test", "daily"), ("dags", "trigger", "daily")):
        for option in (("--conf", '{"a": NaN}'), ("-p", "a=NaN")):
            assert (
                "conf['a'] is nan, which JSON cannot hold: give null or text." in on_db(*words, *option, code=2).stderr
            )


def test_a_simulation_at_the_edge_of_the_calendar_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "daily.py").write_text(DAILY)

    said = cli("simulate", "--dags", str(tmp_path), "--from", "0001-01-01", "--to", "0001-01-02", code=2).stderr

    assert "--from 0001-01-01 --to 0001-01-02 is at the edge of the calendar: give other dates." in said
