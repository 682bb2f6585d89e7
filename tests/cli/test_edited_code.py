"""An edit of a task's body, or of a module beside it, runs as soon as it was noticed: with a real `serve`."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.cli.serving import living, serve, wait_for
from tests.databases import Server
from tests.patience import eventually

DAG = """
from pathlib import Path
from aiosched import dag, task
{imports}

def say(word):
    with Path({out!r}).open("a") as said:
        print(word, file=said)

@dag(schedule=None)
def {dag_id}():
    @task{options}
    {kind} write():
        {body}

    write()

{dag_id}()
"""


def put(
    folder: Path, body: str, *, dag_id: str = "edited", imports: str = "", kind: str = "def", options: str = ""
) -> None:
    """Write the DAG file as an editor does that truncates it: same size, same second, same inode."""
    folder.mkdir(exist_ok=True)
    out = str(folder.parent / f"said_{dag_id}")
    text = DAG.format(dag_id=dag_id, out=out, body=body, imports=imports, kind=kind, options=options)
    (folder / f"{dag_id}.py").write_text(text)


def saying(word: str) -> str:
    return f"say({word!r})"


def versions(cli: Cli, dag_id: str | None = None) -> list[dict[str, Any]]:
    """The versions of a DAG, or of all."""

    async def read(db: Any) -> list[dict[str, Any]]:
        rows = await db.fetch("SELECT id, dag_id, number, source_hash, source FROM dag_version ORDER BY id")
        return [dict(row) for row in rows if dag_id in (None, row["dag_id"])]

    return cli.work(read)


@dataclass(frozen=True)
class Edited:
    """A DAG in the folder of a `serve`."""

    cli: Cli
    dag_id: str = "edited"

    @property
    def dags(self) -> Path:
        """The DAGs folder."""
        assert self.cli.home is not None
        return self.cli.home.parent / "dags"

    def put(self, body: str, **options: str) -> None:
        put(self.dags, body, dag_id=self.dag_id, **options)

    def versions(self) -> list[dict[str, Any]]:
        return versions(self.cli, self.dag_id)

    def noticed(self, before: list[dict[str, Any]]) -> None:
        """Wait until another version is stored."""
        eventually(lambda: self.versions()[-1:] != before[-1:])

    def run(self, number: int) -> str:
        """Trigger a run, wait for its end, and return what its task said."""
        self.cli("dags", "trigger", self.dag_id, "--run-id", f"r{number}", "--wait")
        return self.said()

    def said(self) -> str:
        """What was said last."""
        return (self.dags.parent / f"said_{self.dag_id}").read_text().split()[-1]

    def state(self) -> str:
        """That of the task of the first run."""
        return str(self.cli.json("tasks", "show", self.dag_id, "r1", "write")["state"])


@pytest.fixture(scope="module")
def live(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Cli]]:
    """The command line beside the `serve` with an executor, one for all tests that need no other."""
    with ExitStack() as stack:

        @cache
        def start(executor: str) -> Cli:
            return stack.enter_context(living(server, tmp_path_factory.mktemp(executor), "--executor", executor))

        yield start


@pytest.mark.parametrize(
    ("executor", "kind"),
    [
        ("local", "def"),
        ("inline", "async def"),
        pytest.param("local", "async def", marks=pytest.mark.slow),
        pytest.param("inline", "def", marks=pytest.mark.slow),
    ],
)
def test_an_edited_body_runs_in_the_next_run(live: Callable[[str], Cli], executor: str, kind: str) -> None:
    dag = Edited(live(executor), kind.replace(" ", "_") + "_edited")
    dag.put(saying("one"), kind=kind)
    dag.noticed([])
    assert [dag.run(n) for n in range(2)] == ["one"] * 2
    before = dag.versions()

    dag.put(saying("two"), kind=kind)

    dag.noticed(before)
    assert [dag.run(n) for n in range(2, 4)] == ["two"] * 2
    assert "say('two')" in dag.versions()[-1]["source"]


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("executor", ["local", "inline"])
def test_an_edited_helper_runs_in_the_next_run_also_one_that_a_helper_imports(
    live: Callable[[str], Cli], executor: str
) -> None:
    dag = Edited(live(executor), "helped")
    parts = dag.dags / "parts"
    parts.mkdir()
    (parts / "__init__.py").write_text("")
    (parts / "outer.py").write_text("from . import inner\ndef word():\n    return inner.WORD\n")
    (parts / "inner.py").write_text("WORD = 'one'\n")
    dag.put("say(outer.word())", imports="from parts import outer")
    dag.noticed([])
    assert dag.run(1) == "one"
    before = dag.versions()

    (parts / "inner.py").write_text("WORD = 'two'\n")

    dag.noticed(before)
    assert dag.run(2) == "two"


def test_a_module_that_a_task_imports_while_it_runs_is_the_one_of_now(live: Callable[[str], Cli]) -> None:
    dag = Edited(live("local"), "late_import")
    (dag.dags / "late.py").write_text("WORD = 'one'\n")
    dag.put("import late; say(late.WORD)")
    dag.noticed([])
    assert [dag.run(1), dag.run(2)] == ["one", "one"]

    (dag.dags / "late.py").write_text("WORD = 'two'\n")

    assert [dag.run(3), dag.run(4)] == ["two", "two"]


def test_a_retry_runs_newer_code_and_says_so_and_each_try_names_what_it_ran(live: Callable[[str], Cli]) -> None:
    dag = Edited(live("local"), "retried")
    flag, options = dag.dags.parent / "edited", "(retries=1, retry_delay=0.5)"
    wait = f"import os, time\n        while not os.path.exists({str(flag)!r}): time.sleep(0.02)\n        "
    dag.put(f"{wait}raise ValueError('one')", options=options)
    dag.noticed([])
    dag.cli("dags", "trigger", dag.dag_id, "--run-id", "r1")
    eventually(lambda: dag.state() == "running")
    before = dag.versions()

    dag.put(saying("two"), options=options)
    dag.noticed(before)
    flag.touch()

    eventually(lambda: dag.cli.json("runs", "show", dag.dag_id, "r1")["state"] == "success")
    first, second = dag.versions()
    log = dag.cli("tasks", "logs", dag.dag_id, "r1", "write").stdout
    assert dag.said() == "two"
    assert f"runs newer code than try 1: version 2 of the DAG, source {second['source_hash']}" in log
    tries = dag.cli.json("tasks", "show", dag.dag_id, "r1", "write")["tries"]
    assert [(one["version"], one["source_hash"]) for one in tries] == [
        (1, first["source_hash"]),
        (2, second["source_hash"]),
    ]


@pytest.mark.slow  # tests/faults kills schedulers as well
def test_after_a_sigkill_what_ran_is_what_is_shown(tmp_path: Path, dsn: str) -> None:
    dag = Edited(Cli(dsn, tmp_path / "home"))
    dag.put("import time; time.sleep(600)")

    with serve(tmp_path, dsn) as process:
        wait_for(process, "ready")
        dag.noticed([])
        dag.cli("dags", "trigger", dag.dag_id, "--run-id", "r1")
        eventually(lambda: dag.state() == "running")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    dag.put(saying("two"))
    with serve(tmp_path, dsn) as process:
        wait_for(process, "ready")
        eventually(lambda: dag.cli.json("runs", "show", dag.dag_id, "r1")["state"] == "success")
        eventually(lambda: len(dag.versions()) == 2)

    assert dag.said() == "two"
    tries = dag.cli.json("tasks", "show", dag.dag_id, "r1", "write")["tries"]
    assert [(one["state"], one["version"]) for one in tries] == [("lost", 1), ("success", 2)]


def swap(link: Path, target: Path) -> None:
    """Let a link lead elsewhere at once, as git-sync does."""
    new = link.with_name(f"{link.name}.new")
    new.symlink_to(target)
    new.rename(link)


@pytest.mark.slow  # the folder itself is looked at every 5 s; tests/parsing/test_watched_folder.py does not wait
def test_a_symlink_swap_runs_the_new_release(tmp_path: Path, dsn: str) -> None:
    dag = Edited(Cli(dsn, tmp_path / "home"))
    for word in ("one", "two"):
        put(tmp_path / word, "say(helper.WORD)", imports="import helper")
        (tmp_path / word / "helper.py").write_text(f"WORD = '{word}'\n")
    stamp = (1_700_000_000, 1_700_000_000)
    for path in [*tmp_path.glob("*/*.py"), tmp_path / "one", tmp_path / "two"]:
        os.utime(path, stamp)  # as an archive that was unpacked: all times are those of the release
    (tmp_path / "dags").symlink_to("one")

    with serve(tmp_path, dsn) as process:
        wait_for(process, "ready")
        dag.noticed([])
        assert dag.run(1) == "one"
        before = dag.versions()
        swap(tmp_path / "dags", Path("two"))
        dag.noticed(before)
        assert dag.run(2) == "two"


def test_a_file_that_keeps_size_and_times_is_noticed(live: Callable[[str], Cli]) -> None:
    dag = Edited(live("local"), "same_times")
    dag.put(saying("one"))
    file = dag.dags / "same_times.py"
    status = file.stat()
    dag.noticed([])
    assert dag.run(1) == "one"
    before = dag.versions()

    dag.put(saying("two"))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))

    dag.noticed(before)
    assert dag.run(2) == "two"


def test_a_dag_in_an_archive_runs_and_so_does_its_next_edition(live: Callable[[str], Cli]) -> None:
    dag = Edited(live("local"), "archived")
    for word in ("one", "two"):
        folder = dag.dags.parent / word
        put(folder, "say(helper.WORD)", dag_id=dag.dag_id, imports="import helper")
        (folder / "helper.py").write_text(f"WORD = '{word}'\n")
        shutil.make_archive(str(folder), "zip", folder)
    (dag.dags.parent / "one.zip").rename(dag.dags / "all.zip")
    dag.noticed([])
    assert dag.run(1) == "one"
    before = dag.versions()

    (dag.dags.parent / "two.zip").rename(dag.dags / "all.zip")

    dag.noticed(before)
    assert dag.run(2) == "two"
