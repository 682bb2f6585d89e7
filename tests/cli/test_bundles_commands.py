"""Commands with bundles: what exists, where its code comes from, and what is wrong with a bundle."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.cli.serving import serve, wait_for
from tests.cli.test_bundles_serve import at, git_bundle
from tests.git_server import served
from tests.patience import eventually
from tests.repositories import Repository, code


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A repository with the DAG `shop`, whose first task need not wait; the bundle `team`, and one that is broken."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "go").touch()
    one = Repository(tmp_path / "repo")
    one.commit(code(tmp_path, "old"))
    broken = git_bundle(f"file://{tmp_path}/none", name="broken")
    (tmp_path / "aiosched.toml").write_text(git_bundle(one.url) + broken)
    return one


def test_files_are_checked_and_dags_tested_without_a_scheduler_and_a_broken_bundle_is_named(
    tmp_path: Path, dsn: str, repository: Repository
) -> None:
    cli = Cli(dsn, tmp_path / "home")

    checked = {row["file"]: row["error"] for row in cli.json("dags", "check", code=1)}
    cli("dags", "test", "shop")

    assert checked["team:shop.py"] is None
    assert "none" in checked["broken"]["message"]
    assert (tmp_path / "said").read_text().splitlines() == ["first old old", "second old oldold"]


@pytest.mark.slow
def test_commands_name_the_bundle_and_the_commit_and_doctor_says_what_is_wrong(
    tmp_path: Path, dsn: str, repository: Repository
) -> None:
    cli = Cli(dsn, tmp_path / "home")
    old = repository.git("rev-parse", "HEAD")
    with serve(tmp_path, dsn) as process:
        wait_for(process, "ready")
        at(cli, old)
        cli("dags", "trigger", "shop", "--run-id", "r1", "--wait")
        new = repository.commit(code(tmp_path, "new"))
        at(cli, new)
        errors = eventually(lambda: cli.json("dags", "errors"))
        doctor = {row["check"]: row for row in cli.json("doctor", code=1)}
        shown, listed = cli.json("dags", "show", "shop"), cli.json("dags", "list")
        rendered = cli.json("tasks", "render", "shop", "r1", "first")

    assert (shown["bundle"], shown["bundle_version"], shown["file"]) == ("team", new, "team:shop.py")
    assert [row["file"] for row in listed] == ["team:shop.py"]
    assert [row["file"] for row in errors] == ["broken"]
    assert doctor["bundle team"]["status"] == "ok"
    assert new[:12] in doctor["bundle team"]["text"]
    assert doctor["bundle broken"]["status"] == "error"
    assert rendered["op_kwargs"] == {}


@pytest.mark.slow  # tests/bundles/test_git_bundle.py has logins without a service
def test_the_login_of_a_bundle_is_a_connection_and_its_password_is_nowhere(
    tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = Repository(tmp_path / "repo")
    commit = repository.commit(code(tmp_path, "old"))
    cli = Cli(dsn, tmp_path / "home")
    key = "LM4lXVE1mTfDyLuVJVrMNZRmm6Xw4FNnZCCv0Rq6gV0="
    monkeypatch.setenv("AIOSCHED__SECRETS__FERNET_KEYS", key)
    with served(tmp_path, "robot:s3cret-word") as (address, _):
        text = git_bundle(f"{address}/repo/.git", more='connection = "git_example"')
        (tmp_path / "aiosched.toml").write_text(text)
        with serve(tmp_path, dsn) as process:
            wait_for(process, "ready")
            error = eventually(lambda: cli.json("dags", "errors"))[0]["error"]
            cli("connections", "set", "git_example", "--type", "git", "--login", "robot", "--password", "s3cret-word")
            at(cli, commit)
            process.terminate()
            out, said = process.communicate(timeout=60)

    assert "there is no connection 'git_example'" in error
    assert "s3cret-word" not in out + said
    files = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    assert not any(b"s3cret-word" in path.read_bytes() for path in files)
