"""With `executor.run_as` the files of authors are read with the rights of that user: a link shows nothing more."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from aiosched.authoring.dag.sources import digest_of
from aiosched.clock import FakeClock
from aiosched.db.server.engine import Database
from aiosched.other_user import command_as, rights_of
from aiosched.parsing import author_files, clean_processes
from aiosched.parsing.author_files import AuthorFiles
from aiosched.parsing.discovery import DagFile, FileSelection
from aiosched.parsing.pool import ParsingPool
from tests.executors.attempt_builders import running
from tests.other_users import NOBODY, nobody
from tests.parsing.bench import Bench
from tests.parsing.builders import dag_source, settings_for, write_zip
from tests.patience import PATIENCE, until

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="changes users, which root may"
)  # fmt: skip

SECRET = "fernet_keys = 'k3y-of-the-service'"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in which nobody may write, beside a file of ours that looks like a DAG file to whoever can read it."""
    made = Path(tempfile.mkdtemp(prefix="sources-of-authors-"))
    made.chmod(0o755)
    (made / "dags").mkdir()
    shutil.chown(made / "dags", nobody().uid)
    (made / "settings.py").write_text(f"{SECRET}\nfrom aiosched import DAG\nthis is no Python\n")
    (made / "settings.py").chmod(0o600)
    yield made
    shutil.rmtree(made)


@pytest.fixture
async def pool(folder: Path) -> AsyncIterator[ParsingPool]:
    pool = ParsingPool(settings_for(folder / "dags"), root=str(folder / "dags"), user=nobody())
    yield pool
    await pool.close()


async def shown_of(pool: ParsingPool, path: Path) -> str:
    """All that people see of a file: its source, and its error with the lines around."""
    found = await pool.parse(DagFile(path.name, path, "digest", 1))
    return f"{found.source} {found.error}"


@pytest.mark.parametrize("target", ["../settings.py", "{folder}/settings.py", "/etc/shadow", "/proc/1/environ"])
async def test_a_link_to_what_its_author_cannot_read_is_an_error(pool: ParsingPool, folder: Path, target: str) -> None:
    link = folder / "dags" / "swap.py"
    link.symlink_to(target.format(folder=folder))

    shown = await shown_of(pool, link)

    assert "swap.py cannot be read: [Errno 13] Permission denied" in shown
    assert "k3y-of-the-service" not in shown
    assert "root:" not in shown


async def test_a_link_that_is_exchanged_all_the_time_shows_nothing_more(pool: ParsingPool, folder: Path) -> None:
    """Its own DAG can say that it read another file: what is stored as its source is what was read here."""
    own, path = folder / "dags" / "own.py", folder / "dags" / "swap.py"
    lies = (
        "import aiosched.parsing.child as child\n"
        "true = child.ChildAnswer\n"
        "child.ChildAnswer = lambda *words, **facts: true(*words, **{**facts, 'sources': {}})\n"
    )
    own.write_text(lies + dag_source("swap"))

    with exchanged(path, "own.py", "../settings.py"):
        for _ in range(15):
            assert "k3y-of-the-service" not in await shown_of(pool, path)


async def test_what_is_shown_is_what_was_imported(pool: ParsingPool, folder: Path) -> None:
    dags = folder / "dags"
    for name in ("one", "other"):
        (dags / f"{name}.txt").write_text(dag_source(name))

    with exchanged(dags / "swap.py", "one.txt", "other.txt"):
        for _ in range(20):
            found = await pool.parse(DagFile("swap.py", dags / "swap.py", "digest", 1))
            assert len(found.dags) == 1
            assert f"DAG('{found.dags[0].dag_id}'" in (found.source or "")


@contextlib.contextmanager
def exchanged(path: Path, *targets: str) -> Iterator[None]:
    """A link that leads to one target after the other, all the time."""
    stop, following = threading.Event(), path.with_name(".next")

    def exchange() -> None:
        while not stop.is_set():
            for target in targets:
                following.symlink_to(target)
                following.rename(path)

    path.symlink_to(targets[0])
    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        path.unlink()


@pytest.fixture
async def files() -> AsyncIterator[AuthorFiles]:
    made = AuthorFiles(FileSelection(safe_mode=False), user=nobody())
    yield made
    await made.close()


async def test_a_listing_has_nothing_behind_links_that_its_author_cannot_read(files: AuthorFiles, folder: Path) -> None:
    private = folder / "private"
    private.mkdir(mode=0o700)
    (private / "plan.py").write_text(dag_source("plan"))
    dags = folder / "dags"
    (dags / "own.py").write_text(dag_source("own"))
    (dags / "shared").symlink_to("../private")
    (dags / "swap.py").symlink_to("../settings.py")
    (dags / "pack.zip").symlink_to(write_zip(private / "pack.zip", {"zd.py": dag_source("zd")}))
    (dags / "sub").mkdir()
    (dags / "sub" / ".airflowignore").symlink_to("../../settings.py")

    found = await files.list(None, dags, ("../settings.py", "../private/plan.py"))

    assert list(found.files) == ["own.py"]
    assert list(found.modules) == ["own.py"]
    assert {name: one.message for name, one in found.problems.items()} == {
        "shared": f"{dags}/shared cannot be read: Permission denied",
        "swap.py": "swap.py cannot be read: Permission denied",
        "pack.zip": "pack.zip cannot be read: Permission denied",
        "sub/.airflowignore": "sub/.airflowignore cannot be used, so it ignores nothing: Permission denied",
    }


async def test_no_guess_about_a_file_is_confirmed(files: AuthorFiles, folder: Path) -> None:
    """Whoever knows what a file may contain could learn whether it does: by its digest, and by its text."""
    dags, settings = folder / "dags", folder / "settings.py"
    (dags / "own.py").write_text("OWN = 1\n")
    guess = digest_of(settings.read_bytes())

    with exchanged(dags / "swap.py", "own.py", "../settings.py"):
        for _ in range(50):
            found = await files.list(None, dags, ("swap.py", "../settings.py"))
            assert guess not in found.modules.values()
            assert await files.texts(dags, {"swap.py": guess}) == {}
    assert await files.texts(dags, {"own.py": digest_of(b"OWN = 1\n")}) != {}


async def test_no_author_can_end_the_reader_and_another_one_follows(files: AuthorFiles, folder: Path) -> None:
    (folder / "dags" / "own.py").write_text(dag_source("own"))
    await files.list(None, folder / "dags", ())
    (reader,) = files.pids

    tried = await asyncio.create_subprocess_exec(*command_as(nobody(), ["/bin/kill", "-9", str(reader)]))
    assert (await tried.wait(), files.pids) == (1, (reader,))
    os.kill(reader, signal.SIGKILL)

    assert list((await files.list(None, folder / "dags", ())).files) == ["own.py"]


@contextlib.contextmanager
def held_by_the_kernel(reader: int) -> Iterator[None]:
    """As a process that waits for a file system: it hears no SIGTERM."""
    os.kill(reader, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(reader, signal.SIGKILL)


async def test_a_reader_that_hangs_is_replaced_and_killed(
    files: AuthorFiles, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clean_processes, "GRACE", 0.2)
    (folder / "dags" / "own.py").write_text(dag_source("own"))
    await files.list(None, folder / "dags", ())
    (reader,) = files.pids
    with held_by_the_kernel(reader):
        with monkeypatch.context() as soon:
            soon.setattr(author_files, "PATIENCE", 0.3)
            with contextlib.suppress(OSError):  # also the next one may take longer than that to start
                await files.list(None, folder / "dags", ())
        await until(lambda: not running(reader))
    assert list((await files.list(None, folder / "dags", ())).files) == ["own.py"]


@pytest.mark.parametrize("holder", ["reader", "supervisor"])
async def test_closing_does_not_wait_for_a_process_that_hangs(
    folder: Path, holder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clean_processes, "GRACE", 0.2)
    (folder / "dags" / "own.py").write_text(dag_source("own"))
    made: AuthorFiles | ParsingPool
    if holder == "reader":
        made = AuthorFiles(FileSelection(safe_mode=False), user=nobody())
        await made.list(None, folder / "dags", ())
    else:
        made = ParsingPool(settings_for(folder / "dags"), root=str(folder / "dags"), user=nobody())
        await made.parse(DagFile("own.py", folder / "dags" / "own.py", "digest", 1))
    pid = made.pids[0]
    with held_by_the_kernel(pid):
        async with asyncio.timeout(PATIENCE):
            await made.close()
        await until(lambda: not running(pid))


class Opened:
    """What this process opens below a folder with its own rights. The hook stays for the life of the process."""

    folder: str | None = None
    found: set[str]

    def __call__(self, event: str, words: tuple[object, ...]) -> None:
        if self.folder is None or event not in {"open", "os.listdir", "os.scandir"} or os.geteuid() != 0:
            return
        if isinstance(words[0], str | os.PathLike) and (path := os.fspath(words[0])).startswith(self.folder):
            self.found.add(path)


@pytest.fixture(scope="module")
def hook() -> Opened:
    made = Opened()
    sys.addaudithook(made)
    return made


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("pinned", [False, True])
async def test_the_service_opens_no_file_of_authors_by_itself(
    folder: Path, db: Database, clock: FakeClock, hook: Opened, monkeypatch: pytest.MonkeyPatch, pinned: bool
) -> None:
    """It leaves that to processes with the rights of the authors; and to `Tree`, which opens relative to a folder."""
    monkeypatch.setattr("aiosched.parsing.pool.check_rights", lambda *_: None)
    bench = Bench(folder / "dags", db, clock)
    settings = bench.settings
    settings.executor.run_as, settings.dags.pin_code, settings.core.home = NOBODY, pinned, folder / "home"
    bench.write("helper.py", "X = 1\n")
    bench.write("own.py", dag_source("own", before="import helper"))
    bench.write("data.txt", "1")
    bench.write("reads.py", dag_source("reads", before="open(__file__.replace('reads.py', 'data.txt')).read()"))
    bench.write(".airflowignore", "ignored.*\n")
    write_zip(bench.folder / "pack.zip", {"zd.py": dag_source("zd")})
    hook.found, hook.folder = set(), str(bench.folder)
    try:
        async with bench.running(settings=settings):
            (folder / "next.py").write_text(dag_source("own", "second", before="import helper"))
            (folder / "next.py").rename(bench.folder / "own.py")
            while "second" not in await bench.heard.next():
                pass
    finally:
        hook.folder = None

    assert {"own", "second", "reads", "zd"} == set(await bench.dags())
    assert hook.found <= {str(bench.folder)}


def test_rights_come_back_whatever_happens(folder: Path) -> None:
    before, user = (os.geteuid(), os.getegid(), os.getgroups()), nobody()

    def read() -> str:
        with rights_of(user):
            assert os.geteuid() == user.uid
            return (folder / "settings.py").read_text()

    with pytest.raises(PermissionError):
        read()

    assert (os.geteuid(), os.getegid(), os.getgroups()) == before
    assert SECRET in (folder / "settings.py").read_text()
