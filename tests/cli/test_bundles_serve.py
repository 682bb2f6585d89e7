"""Runs keep the code that they began with: with a real `serve`, real repositories, and worker processes."""

from __future__ import annotations

import shutil
import time
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.cli.serving import serve, stop, wait_for
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
@pytest.mark.parametrize("executor", ["local", "inline"])
def test_a_run_ends_with_the_commit_that_it_began_with_and_the_next_one_has_the_new(
    tmp_path: Path, dsn: str, kind: str, executor: str
) -> None:
    repository = Repository(tmp_path / "repo")
    old = repository.commit(code(tmp_path, "old", kind=kind))
    settings(tmp_path, git_bundle(repository.url))
    cli = Cli(dsn, tmp_path / "home")

    with serve(tmp_path, dsn, "--executor", executor) as process:
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


def test_a_retry_and_a_cleared_run_have_the_old_code_also_if_it_has_to_be_fetched_again(
    tmp_path: Path, dsn: str
) -> None:
    repository = Repository(tmp_path / "repo")
    old = repository.commit(code(tmp_path, "old"))
    settings(tmp_path, git_bundle(repository.url))
    cli = Cli(dsn, tmp_path / "home")
    (tmp_path / "go").touch()

    with serve(tmp_path, dsn) as process:
        wait_for(process, "ready")
        at(cli, old)
        cli("dags", "trigger", "shop", "--run-id", "r1", "--wait")
        new = repository.commit(code(tmp_path, "new"))
        at(cli, new)
        shutil.rmtree(next((tmp_path / "home" / "bundles").glob(f"*/{old}")))
        (tmp_path / "said").unlink()

        cli("tasks", "clear", "shop", "--run", "r1", "--yes")
        cleared = until(lambda: said(tmp_path)[1:])
        until(lambda: state_of(cli, "r1") == "success")
        (tmp_path / "said").unlink()
        cli("tasks", "clear", "shop", "--run", "r1", "--newest-version", "--yes")
        until(lambda: said(tmp_path)[1:])

    assert cleared == ["second old oldold"]
    assert said(tmp_path) == ["first new new", "second new newnew"]


def state_of(cli: Cli, run_id: str, dag_id: str = "shop") -> str:
    return str(cli.json("runs", "show", dag_id, run_id)["state"])


def test_a_version_that_is_gone_is_tried_again_and_then_says_what_to_do(tmp_path: Path, dsn: str) -> None:
    repository = Repository(tmp_path / "repo")
    old = repository.commit(code(tmp_path, "old"))
    more = "[executor]\nmissing_dag_retries = 1\nmissing_dag_retry_delay = 0.1\n"
    settings(tmp_path, git_bundle(repository.url) + more)
    cli = Cli(dsn, tmp_path / "home")
    (tmp_path / "go").touch()

    with serve(tmp_path, dsn) as process:
        wait_for(process, "ready")
        at(cli, old)
        cli("dags", "trigger", "shop", "--run-id", "r1", "--wait")
        new = repository.commit(code(tmp_path, "new"), amend=True)
        repository.git("reflog", "expire", "--expire=now", "--all")
        repository.git("gc", "--quiet", "--prune=now")
        at(cli, new)
        shutil.rmtree(next((tmp_path / "home" / "bundles").glob(f"*/{old}")))
        cli("tasks", "clear", "shop", "--run", "r1", "--yes")
        until(lambda: state_of(cli, "r1") == "failed")
        task = cli.json("tasks", "show", "shop", "r1", "first")

    assert f"version {old[:12]} of the bundle team is gone" in task["reason"]
    assert "--newest-version" in task["reason"]


def test_after_kill_9_in_mid_run_the_next_scheduler_ends_the_run_with_the_old_code(tmp_path: Path, dsn: str) -> None:
    repository = Repository(tmp_path / "repo")
    old = repository.commit(code(tmp_path, "old"))
    settings(tmp_path, git_bundle(repository.url))
    cli = Cli(dsn, tmp_path / "home")
    with serve(tmp_path, dsn) as process:
        wait_for(process, "ready")
        at(cli, old)
        cli("dags", "trigger", "shop", "--run-id", "r1")
        until(lambda: said(tmp_path))
        process.kill()
    new = repository.commit(code(tmp_path, "new"))
    (tmp_path / "go").touch()

    with serve(tmp_path, dsn) as process:
        wait_for(process, "ready")
        at(cli, new)
        until(lambda: state_of(cli, "r1") == "success")

    assert said(tmp_path)[-1] == "second old oldold"
    assert {line for line in said(tmp_path) if line.startswith("first")} == {"first old old"}


def test_a_pinned_folder_keeps_the_code_of_a_run_also_on_a_machine_that_has_only_the_database(
    tmp_path: Path, dsn: str
) -> None:
    put(tmp_path / "dags", code(tmp_path, "old"))
    settings(tmp_path, "[dags]\npin_code = true\n")
    cli = Cli(dsn, tmp_path / "home")

    with serve(tmp_path, dsn) as process:
        wait_for(process, "ready")
        until(lambda: versions(cli))
        cli("dags", "trigger", "shop", "--run-id", "r1")
        until(lambda: said(tmp_path))
        old = versions(cli)[0]["bundle_version"]
        put(tmp_path / "dags", code(tmp_path, "new"))
        until(lambda: versions(cli)[-1]["bundle_version"] != old and "'new'" in versions(cli)[-1]["source"])
        shutil.rmtree(tmp_path / "home" / "bundles" / "dags_folder" / old)
        (tmp_path / "go").touch()
        until(lambda: state_of(cli, "r1") == "success")
        cli("dags", "trigger", "shop", "--run-id", "r2", "--wait")

    assert said(tmp_path) == ["first old old", "second old oldold", "first new new", "second new newnew"]


def put(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def zipped(path: Path, files: dict[str, str]) -> None:
    """Replace an archive."""
    with zipfile.ZipFile(path.with_suffix(".new"), "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    path.with_suffix(".new").replace(path)


def test_a_new_archive_does_not_change_a_run_that_has_begun(tmp_path: Path, dsn: str) -> None:
    zipped(tmp_path / "dags.zip", code(tmp_path, "old"))
    url = f"file://{tmp_path}/dags.zip"
    settings(tmp_path, f'[[dags.bundles]]\nname = "team"\nkind = "archive"\nurl = "{url}"\ninterval = 1\n')
    cli = Cli(dsn, tmp_path / "home")

    with serve(tmp_path, dsn) as process:
        wait_for(process, "ready")
        until(lambda: versions(cli))
        cli("dags", "trigger", "shop", "--run-id", "r1")
        until(lambda: said(tmp_path))
        zipped(tmp_path / "dags.zip", code(tmp_path, "new"))
        until(lambda: "'new'" in versions(cli)[-1]["source"])
        (tmp_path / "go").touch()
        until(lambda: state_of(cli, "r1") == "success")
        cli("dags", "trigger", "shop", "--run-id", "r2", "--wait")

    assert said(tmp_path) == ["first old old", "second old oldold", "first new new", "second new newnew"]


def test_bundles_with_the_same_names_of_modules_do_not_meet_and_a_broken_one_harms_no_other(
    tmp_path: Path, dsn: str
) -> None:
    one, two = Repository(tmp_path / "one"), Repository(tmp_path / "two")
    for name in ("one", "two"):
        (tmp_path / f"at-{name}").mkdir()
        (tmp_path / f"at-{name}" / "go").touch()
    one.commit(code(tmp_path / "at-one", "one", kind="async def", dag_id="a"))
    two.commit(code(tmp_path / "at-two", "two", kind="async def", dag_id="b"))
    settings(
        tmp_path,
        git_bundle(one.url, name="one")
        + git_bundle(two.url, name="two")
        + git_bundle(f"file://{tmp_path}/none", name="broken"),
    )
    cli = Cli(dsn, tmp_path / "home")

    with serve(tmp_path, dsn) as process:
        wait_for(process, "ready")
        until(lambda: versions(cli, "a") and versions(cli, "b"))
        two.commit({"same.py": code(tmp_path, "two", dag_id="a")["a.py"]})  # whoever has a DAG first keeps it
        until(lambda: "two:same.py" in {row["file"] for row in cli.json("dags", "errors")})
        for dag_id in ("a", "b", "a", "b"):
            cli("dags", "trigger", dag_id, "--wait")
        errors = {row["file"]: row["error"] for row in cli.json("dags", "errors")}

    assert said(tmp_path / "at-one") == ["first one one", "second one oneone"] * 2
    assert said(tmp_path / "at-two") == ["first two two", "second two twotwo"] * 2
    assert errors["two:same.py"].startswith("DAG 'a' is already defined in one:a.py")
    assert "cannot be fetched" in errors["broken"]
    assert set(errors) == {"two:same.py", "broken"}


DEFERRING = """
import asyncio
from pathlib import Path
from aiosched import BaseOperator, BaseTrigger, DAG, TriggerEvent
import words

HERE = Path({here!r})

def say(step):
    with (HERE / "said").open("a") as said:
        print(step, words.WORD, file=said)

class Waits(BaseTrigger):
    def serialize(self):
        return (f"{{__name__}}.Waits", {{}})

    async def run(self):
        import late
        say("trigger " + late.WORD)
        while not (HERE / "go").exists():
            await asyncio.sleep(0.05)
        import later
        say("fired " + later.WORD)
        yield TriggerEvent(1)

class Deferred(BaseOperator):
    def execute(self, context):
        self.defer(trigger=Waits(), method_name="resumed")

    def resumed(self, context, event=None):
        say("resumed")

with DAG("shop", schedule=None, on_success_callback=lambda context: say("callback")):
    Deferred(task_id="waits")
"""


def deferring(here: Path, word: str) -> dict[str, str]:
    """The files of a DAG with a task that defers, and a callback. All say `word`."""
    modules = dict.fromkeys(("words.py", "late.py", "later.py"), f"WORD = {word!r}\n")
    return {"waiting.py": DEFERRING.format(here=str(here)), **modules}


def test_triggers_what_resumes_after_them_and_callbacks_have_the_code_of_their_run(tmp_path: Path, dsn: str) -> None:
    repository = Repository(tmp_path / "repo")
    old = repository.commit(deferring(tmp_path, "old"))
    settings(tmp_path, git_bundle(repository.url))
    cli = Cli(dsn, tmp_path / "home")

    with serve(tmp_path, dsn) as process:
        wait_for(process, "ready")
        at(cli, old)
        cli("dags", "trigger", "shop", "--run-id", "r1")
        until(lambda: said(tmp_path))
        new = repository.commit(deferring(tmp_path, "new"))
        at(cli, new)
        (tmp_path / "go").touch()
        until(lambda: "callback old" in said(tmp_path))
        first = said(tmp_path)
        (tmp_path / "said").unlink()
        cli("dags", "trigger", "shop", "--run-id", "r2")
        until(lambda: len(said(tmp_path)) == 4)

    assert first == ["trigger old old", "fired old old", "resumed old", "callback old"]
    assert said(tmp_path) == ["trigger new new", "fired new new", "resumed new", "callback new"]


def test_the_web_server_and_the_other_schedulers_know_the_bundles_too(tmp_path: Path, dsn: str) -> None:
    repository = Repository(tmp_path / "repo")
    repository.commit(code(tmp_path, "new", kind="def"))
    settings(tmp_path, git_bundle(repository.url))
    cli = Cli(dsn, tmp_path / "home")

    with serve(tmp_path, dsn, "--schedulers", "2", "--port", "0", web=True) as process:
        url = wait_for(process, "web")["url"]
        until(lambda: _status(f"{url}/readyz") == 200)
        until(lambda: len(cli.json("schedulers", "list")) == 2)
        stop(process)


def _status(url: str) -> int | None:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return int(answer.status)
    except OSError:
        return None
