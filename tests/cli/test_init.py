"""`aiosched init`: what it makes works as it is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from aiosched.cli.operation.init import settings_file
from aiosched.config import Settings, load_settings, setting_fields
from tests.cli.conftest import Cli


def test_a_new_folder_gets_settings_a_dag_and_its_test(cli: Cli, tmp_path: Path) -> None:
    result = cli("init", "demo")

    assert result.stdout.splitlines() == [
        "created demo/",
        "  aiosched.toml       settings, each with its default as a comment",
        "  dags/hello.py       a DAG with four tasks, one branch, one retry",
        "  tests/test_dags.py  parses every DAG and runs hello",
    ]
    assert result.stderr == "next: cd demo && aiosched serve\n"
    assert sorted(str(p.relative_to("demo")) for p in Path("demo").rglob("*") if p.is_file()) == [
        "aiosched.toml",
        "dags/hello.py",
        "tests/test_dags.py",
    ]


def test_the_next_step_works_without_an_activated_environment(tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("aiosched")
    calls = [[str(script)], [sys.executable, "-m", "aiosched"]]
    environment = {name: value for name, value in os.environ.items() if name != "PATH"}

    for number, call in enumerate(calls):
        command = [*call, "init", f"demo{number}"]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment | {"PATH": "/usr/bin"}, capture_output=True, text=True, check=True
        )
        assert done.stderr == f"next: cd demo{number} && {' '.join(call)} serve\n"


def test_an_empty_folder_is_taken_and_a_full_one_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("precious")

    cli("init", "empty")
    refused = cli("init", "full", code=4)
    cli("init", "full/mine.txt", code=4)

    assert "full is not empty" in refused.stderr
    assert [p.name for p in (tmp_path / "full").iterdir()] == ["mine.txt"]


def test_the_settings_file_changes_nothing_and_lists_every_setting(tmp_path: Path) -> None:
    text = settings_file()
    (tmp_path / "aiosched.toml").write_text(text)

    assert load_settings(environ={}, folder=tmp_path).settings == Settings()
    assert set(re.findall(r"^# (\w+) =", text, re.MULTILINE)) == {field.name for field in setting_fields()}


def test_each_commented_default_is_the_default(tmp_path: Path) -> None:
    uncommented = re.sub(r"^# (\w+ = \S)", r"\1", settings_file(), flags=re.MULTILINE)
    (tmp_path / "aiosched.toml").write_text(re.sub(r"^(\w+ = )#.*$", "", uncommented, flags=re.MULTILINE))

    loaded = load_settings(environ={}, folder=tmp_path)

    assert loaded.settings == Settings()
    assert {str(origin) for origin in loaded.origins.values()} == {"aiosched.toml", "default"}


def test_the_generated_dag_has_four_tasks_one_branch_and_one_retry(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("init", "demo")
    monkeypatch.chdir("demo")

    done = subprocess.run(
        [sys.executable, "-m", "aiosched", "dags", "test", "hello"], capture_output=True, text=True, check=True
    )

    assert [line.split("\t")[:3] for line in done.stdout.splitlines()] == [
        ["fetch", "success", "2"],
        ["choose", "success", "1"],
        ["welcome", "skipped", "0"],
        ["welcome_back", "success", "1"],
    ]


@pytest.mark.slow
def test_the_generated_test_passes(cli: Cli, tmp_path: Path) -> None:
    cli("init", "demo")
    assert tomllib.loads((tmp_path / "demo" / "aiosched.toml").read_text())

    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "tests"]
    done = subprocess.run(
        command, cwd=tmp_path / "demo", capture_output=True, text=True, check=False, env={**os.environ}
    )

    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
