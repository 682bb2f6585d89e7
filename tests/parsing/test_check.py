"""Parsing without a database, for `dags check`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aiosched.errors import NotFound
from aiosched.parsing.check import check_paths
from tests.parsing.builders import dag_source, settings_for, write, write_zip

pytestmark = pytest.mark.usefixtures("kept_supervisors")


async def test_without_paths_the_dags_folder_is_checked_by_its_rules(tmp_path: Path) -> None:
    write(tmp_path, "a.py", dag_source("a"))
    write(tmp_path, "helper.py", "x = 1")
    write(tmp_path, "ignored.py", dag_source("ignored"))
    write(tmp_path, ".aioschedignore", "ignored.py")
    (tmp_path / "loop").symlink_to(tmp_path)

    outcomes = await check_paths([], settings_for(tmp_path))

    assert [(o.name, o.error is None) for o in outcomes] == [("a.py", True), ("loop", False)]


@pytest.mark.slow
async def test_a_file_that_is_named_is_parsed_in_any_case(tmp_path: Path) -> None:
    write(tmp_path, "dags/.aioschedignore", "*")
    inside = write(tmp_path, "dags/sub/quiet.py", "x = 1")
    outside = write(tmp_path, "elsewhere/helper_user.py", "import its_helper\n" + dag_source("b"))
    write(tmp_path, "elsewhere/its_helper.py", "")
    archive = write_zip(tmp_path / "bundle.zip", {"one.py": dag_source("one"), "two.py": "x = 1"})

    outcomes = await check_paths([inside, outside, archive], settings_for(tmp_path / "dags"))

    assert [(o.name, [d.dag_id for d in o.dags], o.error) for o in outcomes] == [
        ("bundle.zip/one.py", ["one"], None),
        ("bundle.zip/two.py", [], None),
        ("helper_user.py", ["b"], None),
        ("sub/quiet.py", [], None),
    ]


async def test_a_folder_below_the_dags_folder_keeps_the_names(tmp_path: Path) -> None:
    write(tmp_path, "a.py", dag_source("a"))
    write(tmp_path, "sub/b.py", dag_source("b"))

    outcomes = await check_paths([tmp_path / "sub"], settings_for(tmp_path))

    assert [o.name for o in outcomes] == ["sub/b.py"]


async def test_a_path_that_does_not_exist_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nowhere does not exist"):
        await check_paths([tmp_path / "nowhere"], settings_for(tmp_path))


async def test_a_file_whose_name_is_not_utf8_is_to_be_renamed(tmp_path: Path) -> None:
    path = write(tmp_path, os.fsdecode(b"caf\xe9.py"), dag_source("a"))

    for paths in ([], [path]):
        (outcome,) = await check_paths(paths, settings_for(tmp_path))

        assert outcome.name == r"caf\xe9.py"
        assert outcome.error is not None
        assert "Rename" in outcome.error.message


async def test_the_settings_reach_the_files(tmp_path: Path) -> None:
    settings = settings_for(tmp_path)
    settings.core.max_active_runs_per_dag = 7
    write(tmp_path, "a.py", dag_source("a"))

    (outcome,) = await check_paths([], settings)

    assert outcome.dags[0].spec.max_active_runs == 7


async def test_a_warning_of_a_file_names_its_line(tmp_path: Path) -> None:
    write(tmp_path, "a.py", "import warnings\nwarnings.warn('old thing', DeprecationWarning)\n" + dag_source("a"))

    (outcome,) = await check_paths([], settings_for(tmp_path))

    assert outcome.warnings == ("a.py:2: DeprecationWarning: old thing",)


async def test_a_result_that_is_too_large_names_the_setting(tmp_path: Path) -> None:
    settings = settings_for(tmp_path)
    settings.parsing.max_result_bytes = 1024
    write(tmp_path, "a.py", dag_source("a", tasks=100))

    (outcome,) = await check_paths([], settings)

    assert outcome.error is not None
    assert "parsing.max_result_bytes" in outcome.error.message
