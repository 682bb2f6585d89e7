"""An edit of a task's body, or of a module beside it, runs as soon as it was noticed: with a real `serve`."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.cli.serving import serve, wait_for

PATIENCE = 100.0  # seconds for what takes one or two: finds what hangs, and judges no busy machine
DAG = """
from pathlib import Path
from aiosched import dag, task
{imports}

def say(word):
    with Path({out!r}).open("a") as said:
        print(word, file=said)

@dag(schedule=None)
def edited():
    @task{options}
    {kind} write():
        {body}

    write()

edited()
"""


def put(folder: Path, body: str, *, imports: str = "", kind: str = "def", options: str = "") -> None:
    """Write the DAG file as an editor does that truncates it: same size, same second, same inode."""
    folder.mkdir(exist_ok=True)
    out = str(folder.parent / "said")
    (folder / "edited.py").write_text(DAG.format(out=out, body=body, imports=imports, kind=kind, options=options))


def saying(word: str) -> str:
    return f"say({word!r})"


def until(what: Callable[[], Any]) -> Any:
    """The first answer of `what` that is not empty; asks again and again for a while."""
    deadline = time.monotonic() + PATIENCE
    while not (found := what()):
        assert time.monotonic() < deadline, "that has not happened"
        time.sleep(0.05)
    return found


def versions(cli: Cli) -> list[dict[str, Any]]:
    async def read(db: Any) -> list[dict[str, Any]]:
        async with db.acquire() as conn:
            rows = await conn.fetch("SELECT id, number, source_hash, source FROM dag_version ORDER BY id")
            return [dict(row) for row in rows]

    return cli.work(read)


def parsed(process: subprocess.Popen[str], cli: Cli) -> None:
    """Wait until it is up and the DAG is stored."""
    wait_for(process, "ready")
    until(lambda: versions(cli))


def noticed(cli: Cli, before: list[dict[str, Any]]) -> None:
    """Wait until another version is stored."""
    until(lambda: versions(cli)[-1:] != before[-1:])


def run(cli: Cli, number: int) -> str:
    """Trigger a run, wait for its end, and return what its task said."""
    cli("dags", "trigger", "edited", "--run-id", f"r{number}", "--wait")
    return said(cli)


def said(cli: Cli) -> str:
    """What was said last."""
    assert cli.home is not None
    return (cli.home.parent / "said").read_text().split()[-1]


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("executor", ["local", "inline"])
def test_an_edited_body_runs_in_the_next_run(tmp_path: Path, dsn: str, executor: str, kind: str) -> None:
    cli, dags = Cli(dsn, tmp_path / "home"), tmp_path / "dags"
    put(dags, saying("one"), kind=kind)

    with serve(tmp_path, dsn, "--executor", executor) as process:
        parsed(process, cli)
        assert [run(cli, n) for n in range(2)] == ["one"] * 2
        before = versions(cli)
        put(dags, saying("two"), kind=kind)
        noticed(cli, before)
        assert [run(cli, n) for n in range(2, 4)] == ["two"] * 2
        assert "say('two')" in versions(cli)[-1]["source"]


@pytest.mark.parametrize("executor", ["local", "inline"])
def test_an_edited_helper_runs_in_the_next_run_also_one_that_a_helper_imports(
    tmp_path: Path, dsn: str, executor: str
) -> None:
    cli, dags = Cli(dsn, tmp_path / "home"), tmp_path / "dags"
    (dags / "parts").mkdir(parents=True)
    (dags / "parts" / "__init__.py").write_text("")
    (dags / "parts" / "outer.py").write_text("from . import inner\ndef word():\n    return inner.WORD\n")
    (dags / "parts" / "inner.py").write_text("WORD = 'one'\n")
    put(dags, "say(outer.word())", imports="from parts import outer")

    with serve(tmp_path, dsn, "--executor", executor) as process:
        parsed(process, cli)
        assert run(cli, 1) == "one"
        before = versions(cli)
        (dags / "parts" / "inner.py").write_text("WORD = 'two'\n")
        noticed(cli, before)
        assert run(cli, 2) == "two"


def test_a_module_that_a_task_imports_while_it_runs_is_the_one_of_now(tmp_path: Path, dsn: str) -> None:
    cli, dags = Cli(dsn, tmp_path / "home"), tmp_path / "dags"
    put(dags, "import late; say(late.WORD)")
    (dags / "late.py").write_text("WORD = 'one'\n")

    with serve(tmp_path, dsn) as process:
        parsed(process, cli)
        assert [run(cli, 1), run(cli, 2)] == ["one", "one"]
        (dags / "late.py").write_text("WORD = 'two'\n")
        assert [run(cli, 3), run(cli, 4)] == ["two", "two"]


def test_a_retry_runs_newer_code_and_says_so_and_each_try_names_what_it_ran(tmp_path: Path, dsn: str) -> None:
    cli, dags = Cli(dsn, tmp_path / "home"), tmp_path / "dags"
    flag, options = tmp_path / "edited", "(retries=1, retry_delay=0.5)"
    wait = f"import os, time\n        while not os.path.exists({str(flag)!r}): time.sleep(0.02)\n        "
    put(dags, f"{wait}raise ValueError('one')", options=options)

    with serve(tmp_path, dsn) as process:
        parsed(process, cli)
        cli("dags", "trigger", "edited", "--run-id", "r1")
        until(lambda: cli.json("tasks", "show", "edited", "r1", "write")["state"] == "running")
        before = versions(cli)
        put(dags, saying("two"), options=options)
        noticed(cli, before)
        flag.touch()
        until(lambda: cli.json("runs", "show", "edited", "r1")["state"] == "success")
        first, second = versions(cli)
        log = cli("tasks", "logs", "edited", "r1", "write").stdout

    assert said(cli) == "two"
    assert f"runs newer code than try 1: version 2 of the DAG, source {second['source_hash']}" in log
    tries = cli.json("tasks", "show", "edited", "r1", "write")["tries"]
    assert [(one["version"], one["source_hash"]) for one in tries] == [
        (1, first["source_hash"]),
        (2, second["source_hash"]),
    ]


def test_after_a_sigkill_what_ran_is_what_is_shown(tmp_path: Path, dsn: str) -> None:
    cli, dags = Cli(dsn, tmp_path / "home"), tmp_path / "dags"
    put(dags, "import time; time.sleep(600)")

    with serve(tmp_path, dsn) as process:
        parsed(process, cli)
        cli("dags", "trigger", "edited", "--run-id", "r1")
        until(lambda: cli.json("tasks", "show", "edited", "r1", "write")["state"] == "running")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    put(dags, saying("two"))
    with serve(tmp_path, dsn) as process:
        parsed(process, cli)
        until(lambda: cli.json("runs", "show", "edited", "r1")["state"] == "success")
        until(lambda: len(versions(cli)) == 2)

    assert said(cli) == "two"
    tries = cli.json("tasks", "show", "edited", "r1", "write")["tries"]
    assert [(one["state"], one["version"]) for one in tries] == [("lost", 1), ("success", 2)]


def swap(link: Path, target: Path) -> None:
    """Let a link lead elsewhere at once, as git-sync does."""
    new = link.with_name(f"{link.name}.new")
    new.symlink_to(target)
    new.rename(link)


def test_a_symlink_swap_runs_the_new_release(tmp_path: Path, dsn: str) -> None:
    cli = Cli(dsn, tmp_path / "home")
    for word in ("one", "two"):
        put(tmp_path / word, "say(helper.WORD)", imports="import helper")
        (tmp_path / word / "helper.py").write_text(f"WORD = '{word}'\n")
    stamp = (1_700_000_000, 1_700_000_000)
    for path in [*tmp_path.glob("*/*.py"), tmp_path / "one", tmp_path / "two"]:
        os.utime(path, stamp)  # as an archive that was unpacked: all times are those of the release
    (tmp_path / "dags").symlink_to("one")

    with serve(tmp_path, dsn) as process:
        parsed(process, cli)
        assert run(cli, 1) == "one"
        before = versions(cli)
        swap(tmp_path / "dags", Path("two"))
        noticed(cli, before)
        assert run(cli, 2) == "two"


def test_a_file_that_keeps_size_and_times_is_noticed(tmp_path: Path, dsn: str) -> None:
    cli, dags = Cli(dsn, tmp_path / "home"), tmp_path / "dags"
    put(dags, saying("one"))
    status = (dags / "edited.py").stat()

    with serve(tmp_path, dsn) as process:
        parsed(process, cli)
        assert run(cli, 1) == "one"
        before = versions(cli)
        put(dags, saying("two"))
        os.utime(dags / "edited.py", ns=(status.st_atime_ns, status.st_mtime_ns))
        noticed(cli, before)
        assert run(cli, 2) == "two"


def test_a_dag_in_an_archive_runs_and_so_does_its_next_edition(tmp_path: Path, dsn: str) -> None:
    cli, dags = Cli(dsn, tmp_path / "home"), tmp_path / "dags"
    for word in ("one", "two"):
        put(tmp_path / word, "say(helper.WORD)", imports="import helper")
        (tmp_path / word / "helper.py").write_text(f"WORD = '{word}'\n")
        shutil.make_archive(str(tmp_path / word), "zip", tmp_path / word)
    dags.mkdir()
    (tmp_path / "one.zip").rename(dags / "all.zip")

    with serve(tmp_path, dsn) as process:
        parsed(process, cli)
        assert run(cli, 1) == "one"
        before = versions(cli)
        (tmp_path / "two.zip").rename(dags / "all.zip")
        noticed(cli, before)
        assert run(cli, 2) == "two"
