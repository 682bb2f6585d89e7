"""Runs keep the code that they began with: with a real `serve`, real repositories, and worker processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.cli.serving import serve, wait_for
from tests.repositories import Repository, code, said

PATIENCE = 40.0  # seconds for what takes one or two


def until(what: Callable[[], Any]) -> Any:
    """The first answer of `what` that is not empty; asks again and again for a while."""
    deadline = time.monotonic() + PATIENCE
    while not (found := what()):
        assert time.monotonic() < deadline, "that has not happened"
        time.sleep(0.05)
    return found


def settings(folder: Path, text: str) -> None:
    (folder / "aiosched.toml").write_text(text)


def git_bundle(url: str, *, name: str = "team", more: str = "") -> str:
    return f'[[dags.bundles]]\nname = "{name}"\nkind = "git"\nurl = "{url}"\nref = "main"\ninterval = 1\n{more}\n'


def versions(cli: Cli, dag_id: str = "shop") -> list[dict[str, Any]]:
    async def read(db: Any) -> list[dict[str, Any]]:
        async with db.acquire() as conn:
            return [
                dict(r) for r in await conn.fetch("SELECT * FROM dag_version WHERE dag_id = $1 ORDER BY id", dag_id)
            ]

    return cli.work(read)


def at(cli: Cli, version: str, dag_id: str = "shop") -> None:
    """Wait until the newest version of the DAG is this one of its bundle."""
    until(lambda: [v["bundle_version"] for v in versions(cli, dag_id)][-1:] == [version])


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_run_ends_with_the_commit_that_it_began_with_and_the_next_one_has_the_new(
    tmp_path: Path, dsn: str, kind: str
) -> None:
    repository = Repository(tmp_path / "repo")
    old = repository.commit(code(tmp_path, "old", kind=kind))
    settings(tmp_path, git_bundle(repository.url))
    cli = Cli(dsn, tmp_path / "home")

    with serve(tmp_path, dsn) as process:
        wait_for(process, "ready")
        at(cli, old)
        cli("dags", "trigger", "shop", "--run-id", "r1")
        until(lambda: said(tmp_path))
        new = repository.commit(code(tmp_path, "new", kind=kind))
        at(cli, new)
        (tmp_path / "go").touch()
        until(lambda: len(said(tmp_path)) == 2)
        cli("dags", "trigger", "shop", "--run-id", "r2", "--wait")

    assert said(tmp_path) == ["first old old", "second old oldold", "first new new", "second new newnew"]
    assert [(v["bundle"], v["file"]) for v in versions(cli)] == [("team", "team:shop.py")] * 2
