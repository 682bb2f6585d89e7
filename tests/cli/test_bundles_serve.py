"""Runs keep the code that they began with: with a real `serve`, real repositories, and worker processes."""

from __future__ import annotations

import shutil
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.cli.serving import living, serve, stop, wait_for
from tests.databases import Server
from tests.patience import eventually
from tests.repositories import Repository, code, said


def settings(folder: Path, text: str) -> None:
    (folder / "aiosched.toml").write_text(text)


def git_bundle(url: str, *, name: str = "team", more: str = "") -> str:
    return f'[[dags.bundles]]\nname = "{name}"\nkind = "git"\nurl = "{url}"\nref = "main"\ninterval = 1\n{more}\n'


def versions(cli: Cli, dag_id: str = "shop") -> list[dict[str, Any]]:
    async def read(db: Any) -> list[dict[str, Any]]:
        return [dict(r) for r in await db.fetch("SELECT * FROM dag_version WHERE dag_id = $1 ORDER BY id", dag_id)]

    return cli.work(read)


def state_of(cli: Cli, run_id: str, dag_id: str = "shop") -> str:
    return str(cli.json("runs", "show", dag_id, run_id)["state"])


def at(cli: Cli, version: str, dag_id: str = "shop") -> None:
    """Wait until the newest version of the DAG is this one of its bundle."""
    eventually(lambda: [v["bundle_version"] for v in versions(cli, dag_id)][-1:] == [version])


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

with DAG("defers", schedule=None, on_success_callback=lambda context: say("callback")):
    Deferred(task_id="waits")
"""


def deferring(here: Path, word: str) -> dict[str, str]:
    """The files of a DAG with a task that defers, and a callback. All say `word`."""
    modules = dict.fromkeys(("words.py", "late.py", "later.py"), f"WORD = {word!r}\n")
    return {"waiting.py": DEFERRING.format(here=str(here)), **modules}


# -- a `serve` of its own


@pytest.mark.slow  # two starts, and tests/faults kills schedulers as well
def test_after_kill_9_in_mid_run_the_next_scheduler_ends_the_run_with_the_old_code(tmp_path: Path, dsn: str) -> None:
    repository = Repository(tmp_path / "repo")
    old = repository.commit(code(tmp_path, "old"))
    settings(tmp_path, git_bundle(repository.url))
    cli = Cli(dsn, tmp_path / "home")
    with serve(tmp_path, dsn) as process:
        wait_for(process, "ready")
        at(cli, old)
        cli("dags", "trigger", "shop", "--run-id", "r1")
        eventually(lambda: said(tmp_path))
        process.kill()
    new = repository.commit(code(tmp_path, "new"))
    (tmp_path / "go").touch()

    with serve(tmp_path, dsn) as process:
        wait_for(process, "ready")
        at(cli, new)
        eventually(lambda: state_of(cli, "r1") == "success")

    assert said(tmp_path)[-1] == "second old oldold"
    assert {line for line in said(tmp_path) if line.startswith("first")} == {"first old old"}


@pytest.mark.slow
def test_a_pinned_folder_keeps_the_code_of_a_run_also_on_a_machine_that_has_only_the_database(
    tmp_path: Path, dsn: str
) -> None:
    put(tmp_path / "dags", code(tmp_path, "old"))
    settings(tmp_path, "[dags]\npin_code = true\n")
    cli = Cli(dsn, tmp_path / "home")

    with serve(tmp_path, dsn) as process:
        wait_for(process, "ready")
        eventually(lambda: versions(cli))
        cli("dags", "trigger", "shop", "--run-id", "r1")
        eventually(lambda: said(tmp_path))
        old = versions(cli)[0]["bundle_version"]
        put(tmp_path / "dags", code(tmp_path, "new"))
        eventually(lambda: versions(cli)[-1]["bundle_version"] != old and "'new'" in versions(cli)[-1]["source"])
        shutil.rmtree(tmp_path / "home" / "bundles" / "dags_folder" / old)
        (tmp_path / "go").touch()
        eventually(lambda: state_of(cli, "r1") == "success")
        cli("dags", "trigger", "shop", "--run-id", "r2", "--wait")

    assert said(tmp_path) == ["first old old", "second old oldold", "first new new", "second new newnew"]


@pytest.mark.slow  # a web server and two schedulers start
def test_the_web_server_and_the_other_schedulers_know_the_bundles_too(tmp_path: Path, dsn: str) -> None:
    repository = Repository(tmp_path / "repo")
    repository.commit(code(tmp_path, "new", kind="def"))
    settings(tmp_path, git_bundle(repository.url))
    cli = Cli(dsn, tmp_path / "home")

    with serve(tmp_path, dsn, "--schedulers", "2", "--port", "0", web=True) as process:
        url = wait_for(process, "web")["url"]
        eventually(lambda: _status(f"{url}/readyz") == 200)
        eventually(lambda: len(cli.json("schedulers", "list")) == 2)
        stop(process)


def _status(url: str) -> int | None:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return int(answer.status)
    except OSError:
        return None


# -- one `serve` with each executor for all tests that need no other: their bundles and DAGs have names of their own

SETTINGS = "[executor]\nmissing_dag_retries = 1\nmissing_dag_retry_delay = 0.1\n"
SHOPS = {"threads": "def", "awaits": "async def"}  # the kind of each one's tasks


@dataclass(frozen=True)
class Live:
    """The command line beside a living scheduler, and the repositories of its bundles, each in the folder of a DAG."""

    cli: Cli
    repositories: dict[str, Repository]

    def begin(self, dag_id: str) -> tuple[Repository, Path, str]:
        """The repository, folder and newest commit of a DAG, after that was noticed."""
        repository = self.repositories[dag_id]
        commit = repository.git("rev-parse", "HEAD")
        at(self.cli, commit, dag_id)
        return repository, repository.folder.parent, commit


@pytest.fixture(scope="module")
def live(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Live]]:
    """Starts the service with an executor. All its bundles say `old`, but for one that cannot be fetched."""
    with ExitStack() as stack:

        @cache
        def start(executor: str) -> Live:
            folder = tmp_path_factory.mktemp(executor)
            files = {name: code(folder / name, "old", kind=kind, dag_id=name) for name, kind in SHOPS.items()}
            more = ""
            if executor == "local":
                files |= {name: code(folder / name, "old", dag_id=name) for name in ("again", "gone")}
                files |= {name: code(folder / name, name, kind="async def", dag_id=name) for name in ("one", "two")}
                files["defers"] = deferring(folder / "defers", "old")
                (folder / "zipped").mkdir()
                zipped(folder / "zipped" / "dags.zip", code(folder / "zipped", "old", dag_id="zipped"))
                more = git_bundle(f"file://{folder}/none", name="broken") + (
                    '[[dags.bundles]]\nname = "zipped"\nkind = "archive"\ninterval = 1\n'
                    f'url = "file://{folder}/zipped/dags.zip"\n'
                )
            repositories = {name: Repository(folder / name / "repo") for name in files}
            for name, repository in repositories.items():
                repository.commit(files[name])
                more += git_bundle(repository.url, name=name)
            settings(folder, SETTINGS + more)
            cli = stack.enter_context(living(server, folder, "--executor", executor, read=False))
            return Live(cli, repositories)

        yield start


@pytest.mark.parametrize(
    ("executor", "dag_id"),
    [
        ("local", "threads"),
        pytest.param("inline", "awaits", marks=pytest.mark.slow),
        pytest.param("local", "awaits", marks=pytest.mark.slow),
        pytest.param("inline", "threads", marks=pytest.mark.slow),
    ],
)
def test_a_run_ends_with_the_commit_that_it_began_with_and_the_next_one_has_the_new(
    live: Callable[[str], Live], executor: str, dag_id: str
) -> None:
    cli = live(executor).cli
    repository, here, _ = live(executor).begin(dag_id)

    cli("dags", "trigger", dag_id, "--run-id", "r1")
    eventually(lambda: said(here))
    new = repository.commit(code(here, "new", kind=SHOPS[dag_id], dag_id=dag_id))
    at(cli, new, dag_id)
    (here / "go").touch()
    eventually(lambda: len(said(here)) == 2)
    cli("dags", "trigger", dag_id, "--run-id", "r2", "--wait")

    assert said(here) == ["first old old", "second old oldold", "first new new", "second new newnew"]
    assert [(v["bundle"], v["file"]) for v in versions(cli, dag_id)] == [(dag_id, f"{dag_id}:{dag_id}.py")] * 2


def forget(cli: Cli, version: str) -> None:
    """Remove a version of a bundle from this machine."""
    assert cli.home is not None
    shutil.rmtree(next((cli.home / "bundles").glob(f"*/{version}")))


@pytest.mark.slow
def test_a_retry_and_a_cleared_run_have_the_old_code_also_if_it_has_to_be_fetched_again(
    live: Callable[[str], Live],
) -> None:
    cli = live("local").cli
    repository, here, old = live("local").begin("again")
    (here / "go").touch()
    cli("dags", "trigger", "again", "--run-id", "r1", "--wait")
    new = repository.commit(code(here, "new", dag_id="again"))
    at(cli, new, "again")
    forget(cli, old)
    (here / "said").unlink()

    cli("tasks", "clear", "again", "--run", "r1", "--yes")
    cleared = eventually(lambda: said(here)[1:])
    eventually(lambda: state_of(cli, "r1", "again") == "success")
    (here / "said").unlink()
    cli("tasks", "clear", "again", "--run", "r1", "--newest-version", "--yes")
    eventually(lambda: said(here)[1:])

    assert cleared == ["second old oldold"]
    assert said(here) == ["first new new", "second new newnew"]


@pytest.mark.slow
def test_a_version_that_is_gone_is_tried_again_and_then_says_what_to_do(live: Callable[[str], Live]) -> None:
    cli = live("local").cli
    repository, here, old = live("local").begin("gone")
    (here / "go").touch()
    cli("dags", "trigger", "gone", "--run-id", "r1", "--wait")
    new = repository.commit(code(here, "new", dag_id="gone"), amend=True)
    repository.git("reflog", "expire", "--expire=now", "--all")
    repository.git("gc", "--quiet", "--prune=now")
    at(cli, new, "gone")
    forget(cli, old)

    cli("tasks", "clear", "gone", "--run", "r1", "--yes")
    eventually(lambda: state_of(cli, "r1", "gone") == "failed")

    task = cli.json("tasks", "show", "gone", "r1", "first")
    assert f"version {old[:12]} of the bundle gone is gone" in task["reason"]
    assert "--newest-version" in task["reason"]


@pytest.mark.slow
def test_a_new_archive_does_not_change_a_run_that_has_begun(live: Callable[[str], Live]) -> None:
    cli = live("local").cli
    assert cli.home is not None
    here = cli.home.parent / "zipped"
    eventually(lambda: versions(cli, "zipped"))
    cli("dags", "trigger", "zipped", "--run-id", "r1")
    eventually(lambda: said(here))

    zipped(here / "dags.zip", code(here, "new", dag_id="zipped"))
    eventually(lambda: "'new'" in versions(cli, "zipped")[-1]["source"])
    (here / "go").touch()
    eventually(lambda: state_of(cli, "r1", "zipped") == "success")
    cli("dags", "trigger", "zipped", "--run-id", "r2", "--wait")

    assert said(here) == ["first old old", "second old oldold", "first new new", "second new newnew"]


@pytest.mark.slow
def test_bundles_with_the_same_names_of_modules_do_not_meet_and_a_broken_one_harms_no_other(
    live: Callable[[str], Live],
) -> None:
    cli = live("local").cli
    _, one, _ = live("local").begin("one")
    repository, two, _ = live("local").begin("two")
    for here in (one, two):
        (here / "go").touch()

    repository.commit({"same.py": code(two, "two", dag_id="one")["one.py"]})  # whoever has a DAG first keeps it
    eventually(lambda: "two:same.py" in {row["file"] for row in cli.json("dags", "errors")})
    for dag_id in ("one", "two", "one", "two"):
        cli("dags", "trigger", dag_id, "--wait")
    errors = {row["file"]: row["error"] for row in cli.json("dags", "errors")}

    assert said(one) == ["first one one", "second one oneone"] * 2
    assert said(two) == ["first two two", "second two twotwo"] * 2
    assert errors["two:same.py"].startswith("DAG 'one' is already defined in one:one.py")
    assert "cannot be fetched" in errors["broken"]
    assert set(errors) == {"two:same.py", "broken"}


@pytest.mark.slow
def test_triggers_what_resumes_after_them_and_callbacks_have_the_code_of_their_run(
    live: Callable[[str], Live],
) -> None:
    cli = live("local").cli
    repository, here, _ = live("local").begin("defers")
    cli("dags", "trigger", "defers", "--run-id", "r1")
    eventually(lambda: said(here))
    new = repository.commit(deferring(here, "new"))
    at(cli, new, "defers")
    (here / "go").touch()
    eventually(lambda: "callback old" in said(here))
    first = said(here)
    (here / "said").unlink()
    cli("dags", "trigger", "defers", "--run-id", "r2")
    eventually(lambda: len(said(here)) == 4)

    assert first == ["trigger old old", "fired old old", "resumed old", "callback old"]
    assert said(here) == ["trigger new new", "fired new new", "resumed new", "callback new"]
