"""What is written: formats, the small YAML writer, times and durations."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from aiosched.cli.base.output import (
    ExactInstant,
    Format,
    RunId,
    duration,
    fitting,
    instant,
    set_wide,
    show_list,
    show_one,
    talk,
    to_yaml,
    write,
)
from aiosched.clock import SystemClock
from aiosched.core.values.durations import relative

AT = datetime(2026, 11, 20, 13, 0, 0, tzinfo=timezone(timedelta(hours=1)))


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        ({}, ["{}"]),
        ([], ["[]"]),
        ("a: b", ['"a: b"']),
        (None, ["null"]),
        ({"a": 1, "b": None, "c": True}, ['"a": 1', '"b": null', '"c": true']),
        ({"a": {"b": [1, 2]}}, ['"a":', '  "b":', "    - 1", "    - 2"]),
        ([{"a": 1, "b": []}, {"c": {"d": "no"}}], ['- "a": 1', '  "b": []', '- "c":', '    "d": "no"']),
        ([[1, 2], []], ["- - 1", "  - 2", "- []"]),
        ({"text": "two\nlines", "ü": "ß"}, ['"text": "two\\nlines"', '"ü": "ß"']),
    ],
)
def test_yaml_is_written_in_blocks_with_quoted_texts(data: Any, lines: list[str]) -> None:
    assert to_yaml(data).split("\n") == lines


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (0.0, "0 ms"),
        (0.34, "340 ms"),
        (2.14, "2.1 s"),
        (59.9, "59.9 s"),
        (60, "1 m"),
        (252, "4 m 12 s"),
        (3600, "1 h"),
        (11_100, "3 h 5 m"),
        (86_400, "1 d"),
        (187_200, "2 d 4 h"),
    ],
)
def test_a_duration_has_at_most_two_units(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s ago"), (12, "12 s ago"), (119, "119 s ago"), (120, "2 m ago"), (7_300, "2 h ago"),
        (-7_300, "in 2 h"), (86_400 * 40, "40 d ago"), (-90, "in 90 s"),
    ],
)  # fmt: skip
def test_an_instant_in_a_table_is_relative_to_now(seconds: int, text: str) -> None:
    assert relative(AT, AT + timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("needs", "room", "kept", "widths"),
    [
        ([5, 30, 9], 64, (0,), [5, 30, 9]),
        ([5, 30, 9], 44, (0,), [5, 26, 9]),
        ([20, 30, 30], 64, (0,), [20, 20, 20]),
        ([20, 30, 30], 63, (0,), [20, 20, 19]),  # of equal ones the last
        ([20, 30, 30], 64, (0, 1), [20, 30, 10]),
        ([62, 20, 30, 40], 90, (0,), [62, 8, 7, 7]),
        ([62, 20, 30, 40], 80, (0,), [62, 7, 7, 0]),
        ([62, 20, 30, 40], 64, (0, 2), [62, 0, 30, 0]),  # too wide, and yet whole
    ],
)
def test_the_widest_last_columns_are_cut_then_left_out_and_ids_never(
    needs: list[int], room: int, kept: tuple[int, ...], widths: list[int]
) -> None:
    assert fitting([[width] for width in needs], room, kept, [6] * len(needs)) == widths


@pytest.mark.parametrize(
    ("ids", "room", "widths"),
    [
        ([20, 20, 200], 80, [20, 28, 28]),  # one is too long: nothing is taken from the others
        ([20, 45, 200], 80, [45, 16, 15]),  # as long as all of them have room
        ([5, 62, 62, 62], 80, [62, 16, 0]),  # most are so long
        ([200], 80, [200, 0, 0]),
        ([20, 20, 70], 160, [70, 30, 30]),  # there is room
    ],
)
def test_a_few_ids_that_are_too_long_take_no_column_from_the_other_rows(
    ids: list[int], room: int, widths: list[int]
) -> None:
    assert fitting([ids, [30] * len(ids), [30] * len(ids)], room, [0], [8, 8, 8]) == widths


def test_the_row_of_an_id_that_is_too_long_goes_on_behind_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    long, words = "d" * 60, "a file of many words and\nlines"
    columns = {"DAG": str, "STATUS": lambda row: "active", "FILE": lambda row: words}

    show_list(["etl", long, "load"], columns, Format.TABLE, empty="")

    shown = capsys.readouterr()
    assert shown.out.splitlines() == [
        "DAG   STATUS  FILE",
        "etl   active  a file of many words and …",
        f"{long}  active  a file of many words and …",
        "load  active  a file of many words and …",
    ]
    assert shown.err == ""


def test_a_table_has_one_line_for_each_row_and_cuts_off_what_does_not_fit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(SystemClock, "now", lambda self: AT + timedelta(minutes=5))
    run_id = "scheduled__2026-11-20T06:00:00+00:00"
    columns = {
        "NAME": lambda row: "d" * 20,
        "TEXT": lambda row: "t" * 80,
        "RUN": lambda row: RunId(run_id),
        "DATE": lambda row: ExactInstant(AT),
        "START": lambda row: AT,
    }

    def lines(wide: bool) -> list[str]:
        set_wide(wide)
        show_list([1], columns, Format.TABLE, empty="")
        return capsys.readouterr().out.splitlines()

    (_, narrow), (_, wide) = lines(wide=False), lines(wide=True)
    set_wide(False)

    assert (narrow[:23], len(narrow.rstrip()) <= 100) == (f"{'d' * 20}  t", True)
    assert "…" in narrow.split()[1]
    assert narrow.split()[2:] == ["2026-11-20T06:00", "2026-11-20", "12:00:00Z", "5", "m", "ago"]
    assert wide.split() == ["d" * 20, "t" * 80, run_id, "2026-11-20", "12:00:00Z", "2026-11-20", "12:00:00Z"]


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_what_a_list_is_for_is_wrapped_by_words_and_never_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    what, path = (
        "code of DAGs runs as the scheduler's own user, and can reach all that this user can",
        "/srv/" + "d" * 60,
    )
    table = {"CHECK": lambda row: row, "STATUS": lambda _: "ok", "WHAT": lambda _: what, "DO": lambda _: f"see {path}"}

    show_list(["isolation"], table, Format.TABLE, empty="", sentences=2)

    heading, first, *more = capsys.readouterr().out.splitlines()
    assert heading == "CHECK      STATUS  WHAT"
    assert {line[:19] for line in more} == {" " * 19}
    assert " ".join(line[19:] for line in (first, *more)) == f"{what} do: see {path}"
    assert all(len(line) <= max(columns, 19 + 30) or line[19:] == path for line in (first, *more))
    assert not any(line.endswith(" ") for line in (heading, first, *more))


def test_columns_before_sentences_leave_them_room(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    table = {"FILE": lambda _: "f.py", "DAGS": lambda _: "d" * 50, "FIRST": lambda row: row}

    show_list(["say what it is", ""], table, Format.TABLE, empty="", sentences=1)

    assert capsys.readouterr().out.splitlines() == [
        "FILE  DAGS                    FIRST",
        f"f.py  {'d' * 21}…  say what it is",
        f"f.py  {'d' * 21}…",
    ]


def test_an_instant_is_shown_in_utc() -> None:
    assert instant(AT) == "2026-11-20 12:00:00Z"


COLUMNS = {"NAME": lambda row: row["name"], "AT": lambda row: row["at"], "ON": lambda row: row["on"]}
ROWS = [{"name": "a\tb", "at": AT.astimezone(UTC), "on": True}]


def test_plain_lines_have_tabs_between_cells_and_no_heading(capsys: pytest.CaptureFixture[str]) -> None:
    show_list(ROWS, COLUMNS, None, empty="")

    assert capsys.readouterr().out == "a b\t2026-11-20T12:00:00Z\tyes\n"


HOSTILE = "a\x1b]0;title\x07\x1b[2J\x9b2J\r\x08b"


@pytest.mark.parametrize("form", [Format.PLAIN, Format.TABLE])
def test_a_terminal_obeys_nothing_of_what_authors_wrote(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, form: Format
) -> None:
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")

    show_list([HOSTILE], {"TEXT": lambda text: text}, form, empty="")
    show_one({"text": HOSTILE}, form)
    write(HOSTILE)
    talk(HOSTILE)

    shown = capsys.readouterr()
    assert [word for word in (shown.out + shown.err).split() if word not in ("TEXT", "text")] == ["a2Jb"] * 4


def test_values_in_a_pipe_are_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    write(HOSTILE)

    assert capsys.readouterr().out == HOSTILE + "\n"


def test_an_id_that_is_wider_than_the_terminal_is_whole_and_the_rest_is_left_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    show_list([1], {"DAG": lambda row: "d" * 60, "FILE": lambda row: "f.py"}, Format.TABLE, empty="")

    shown = capsys.readouterr()
    assert shown.out.split() == ["DAG", "d" * 60]
    assert "FILE (--wide shows all)" in shown.err


def test_json_has_all_fields_and_times_in_rfc_3339_utc(capsys: pytest.CaptureFixture[str]) -> None:
    show_list(ROWS, COLUMNS, Format.JSON, empty="")

    assert json.loads(capsys.readouterr().out) == [{"name": "a\tb", "at": "2026-11-20T12:00:00Z", "on": True}]


def test_nothing_to_show_is_said_on_stderr_and_is_an_empty_list_for_machines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_list([], COLUMNS, None, empty="nothing here")
    assert capsys.readouterr() == ("", "nothing here\n")

    show_list([], COLUMNS, Format.JSON, empty="nothing here")
    assert capsys.readouterr() == ("[]\n", "")


def test_one_thing_is_names_and_values(capsys: pytest.CaptureFixture[str]) -> None:
    show_one({"a": 1, "b": None}, None)

    assert capsys.readouterr().out == "a\t1\nb\t\n"


def on_a_terminal(*words: str, **environment: str) -> str:
    """What `aiosched` writes when stdout is a terminal."""
    leader, follower = pty.openpty()
    env = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "COLUMNS": "120", **environment}
    process = subprocess.Popen([sys.executable, "-m", "aiosched", *words], stdout=follower, env=env)
    os.close(follower)
    written = b""
    while chunk := _read(leader):
        written += chunk
    os.close(leader)
    assert process.wait() == 0
    return written.decode().replace("\r\n", "\n")


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the other end is closed
        return b""


def test_a_terminal_gets_a_table_with_colours() -> None:
    written = on_a_terminal("config", "list", "--origin")

    heading, first, *_ = written.splitlines()
    assert "\x1b[" in heading
    assert "SETTING" in heading
    assert first.split() == ["core.dags_folder", "dags", "default"]


def test_only_states_have_colours_not_ids_that_are_called_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")

    show_list(["failed"], {"DAG": str, "STATE": str}, Format.TABLE, empty="")

    assert capsys.readouterr().out.splitlines()[1] == "failed  \x1b[31mfailed\x1b[0m"


def test_a_table_of_one_thing_leaves_out_what_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    show_one({"name": "etl", "description": None, "open": 4}, Format.TABLE)

    assert capsys.readouterr().out == "name  etl\nopen  4\n"


def test_no_color_is_respected() -> None:
    written = on_a_terminal("config", "list", NO_COLOR="1")

    assert "\x1b[3" not in written
    assert "SETTING" in written
