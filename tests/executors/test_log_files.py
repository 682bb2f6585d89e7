"""Reading log files: in parts, however long they are."""

from __future__ import annotations

from pathlib import Path

from aiosched.executors.attempt.log_files import LOG_PART, old_run_folders, read_log


def test_a_long_log_is_read_in_parts_of_whole_lines(tmp_path: Path) -> None:
    lines = [f"line {number} é\n" for number in range(300_000)]
    (tmp_path / "attempt=1.log").write_text("".join(lines))

    parts, offset = [], 0
    while (part := read_log(tmp_path, 1, offset=offset))[0]:
        text, offset = part
        parts.append(text)

    assert "".join(parts) == "".join(lines)
    assert len(parts) > 3
    assert all(len(part.encode()) <= LOG_PART and part.endswith("\n") for part in parts)


def test_a_line_that_is_longer_than_a_part_does_not_stop_the_reader(tmp_path: Path) -> None:
    (tmp_path / "attempt=1.log").write_text("x" * (LOG_PART + 10) + "\nend\n")

    first, offset = read_log(tmp_path, 1)
    second, _ = read_log(tmp_path, 1, offset=offset)

    assert first + second == "x" * (LOG_PART + 10) + "\nend\n"


def test_a_line_that_is_not_finished_waits(tmp_path: Path) -> None:
    (tmp_path / "attempt=1.log").write_text("one\ntw")

    assert read_log(tmp_path, 1) == ("one\n", 4)
    assert read_log(tmp_path, 1, offset=4) == ("", 4)


def test_old_folders_of_runs_are_listed_one_by_one(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / "dag_id=d" / f"run_id=r{number}").mkdir(parents=True)

    folders = old_run_folders(tmp_path, before=1e12)

    assert next(folders).parent.name == "dag_id=d"
    assert len(list(folders)) == 2
