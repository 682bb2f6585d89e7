"""Folders of logs, and which of them are old."""

from __future__ import annotations

from pathlib import Path

from aiosched.remote.log_files import old_run_folders


def test_old_folders_of_runs_are_listed_one_by_one(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / "dag_id=d" / f"run_id=r{number}").mkdir(parents=True)

    folders = old_run_folders(tmp_path, before=1e12)

    assert next(folders).parent.name == "dag_id=d"
    assert len(list(folders)) == 2
