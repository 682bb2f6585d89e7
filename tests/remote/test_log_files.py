"""Folders of logs, and which of them are old."""

from __future__ import annotations

from pathlib import Path

from aiosched.remote.log_files import log_folder, old_run_folders


def test_old_folders_of_runs_are_listed_one_by_one(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / "dag_id=d" / f"run_id=r{number}").mkdir(parents=True)

    folders = old_run_folders(tmp_path, before=1e12)

    assert next(folders).parent.name == "dag_id=d"
    assert len(list(folders)) == 2


def test_the_longest_ids_are_names_of_folders_of_their_own(tmp_path: Path) -> None:
    dag_id, first, second = "任" * 250, "𠀀" * 249 + "𠀁", "𠀀" * 249 + "𠀂"  # 1,000 bytes

    for task_id in (first, second):
        log_folder(tmp_path, dag_id=dag_id, run_id="r", task_id=task_id).mkdir(parents=True)

    assert len(list(tmp_path.glob("dag_id=*/run_id=r/task_id=*"))) == 2
