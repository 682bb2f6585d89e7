"""Finding what processes leave behind, and ending it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiosched import leftovers

FOREVER = "while :; do sleep 0.05; done"


@pytest.fixture
def mark() -> Iterator[str]:
    one = leftovers.new_mark()
    yield one
    leftovers.end(lambda: marked(one))


def marked(mark: str) -> list[int]:
    return [pid for pid in leftovers.carrying(leftovers.MARK, lambda value: value == mark) if lives(pid)]


def lives(pid: int) -> bool:
    each = leftovers.read_process(pid)
    return each is not None and not each.has_ended


def runs(pid: int, program: str) -> bool:
    """Whether it is the bash that runs the program, not the shell that starts it, and not `setsid` any more."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().startswith(f"bash\0-c\0{program}\0")
    except OSError:
        return False


def start(program: str, mark: str, **env: str) -> None:
    """Run a program in bash that leaves something behind, out of visible, and wait until it runs."""
    line = f"(setsid bash -c {program!r} > /dev/null 2>&1 &)"
    subprocess.run(["bash", "-c", line], env={**os.environ, leftovers.MARK: mark, **env}, check=True)
    deadline = time.monotonic() + 20
    while not any(runs(pid, program) for pid in marked(mark)):
        assert time.monotonic() < deadline


def test_what_carries_a_mark_is_found_and_ended_with_all_below_it_also_what_has_an_environment_of_its_own(
    mark: str,
) -> None:
    start(f"env -i bash -c '{FOREVER}' & wait", mark)
    deadline = time.monotonic() + 20
    while len(found := leftovers.carrying(leftovers.MARK, lambda value: value == mark)) < 2:
        assert time.monotonic() < deadline

    ended = leftovers.end(lambda: leftovers.carrying(leftovers.MARK, lambda value: value == mark))

    assert not any(map(lives, found))
    assert ended.left == ()
    assert ended.text("it").startswith("ended processes that it left behind: bash (pid ")


def test_what_forks_again_and_again_does_not_get_away(mark: str) -> None:
    start("f() { sleep 0.01; f & }; f; wait", mark)

    leftovers.end(lambda: leftovers.carrying(leftovers.MARK, lambda value: value == mark))

    assert marked(mark) == []


def test_only_marks_of_processes_that_are_gone_are_those_of_orphans() -> None:
    program = "from aiosched import leftovers; print(leftovers.new_mark())"
    gone = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()
    mine = leftovers.new_mark()
    namespace, pid, started, number = mine.split(".")

    assert leftovers.owner_is_gone(gone)
    assert not leftovers.owner_is_gone(mine)
    assert leftovers.owner_is_gone(f"{namespace}.{pid}.{int(started) + 1}.{number}"), "another process had the id"
    assert not leftovers.owner_is_gone(f"{int(namespace) + 1}.{pid}.1.{number}"), "of a namespace that is not ours"
    assert not leftovers.owner_is_gone("words")
    assert mine != leftovers.new_mark()


def test_orphans_of_the_living_are_left_alone(mark: str) -> None:
    start(FOREVER, mark)

    leftovers.end_orphans()

    assert marked(mark)


CHILDREN = """
import os, subprocess, sys, time
from aiosched import leftovers
leftovers.inherit_orphans()
old = subprocess.Popen(["sleep", "1000"])
time.sleep(0.05)
between = leftovers.boot_time()
time.sleep(0.05)
subprocess.run(["bash", "-c", "(setsid sleep 1001 > /dev/null 2>&1 &)"])
names = lambda: [leftovers.read_process(pid).name for pid in leftovers.children_of(os.getpid())]
print(len(names()), leftovers.end_children(before=between).ended == (f"sleep (pid {old.pid})",), len(names()))
print(len(leftovers.end_children().ended), names())
old.returncode = 0
"""


def test_children_are_ended_by_when_they_were_started() -> None:
    done = subprocess.run([sys.executable, "-c", CHILDREN], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines() == ["2 True 1", "1 []"]


def test_what_may_not_be_ended_is_named_and_not_waited_for(monkeypatch: pytest.MonkeyPatch, mark: str) -> None:
    def refuse(pid: int, signum: int) -> None:
        raise PermissionError(pid, signum)

    start(FOREVER, mark)
    with monkeypatch.context() as patch:
        patch.setattr("aiosched.leftovers.os.kill", refuse)
        began = time.monotonic()
        ended = leftovers.end(lambda: marked(mark)[:1], patience=60)

    assert time.monotonic() - began < 30
    assert ended.ended == ()
    assert "left processes behind that cannot be ended: bash (pid" in ended.text("it")


def test_without_the_kernels_lists_of_children_the_same_are_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    child = subprocess.Popen(["sleep", "1000"])
    try:
        with monkeypatch.context() as patch:
            patch.setattr("aiosched.leftovers._lists_children", lambda: False)
            patch.setattr("aiosched.leftovers.os.listdir", _without_threads)
            assert child.pid in leftovers.children_of(os.getpid())
    finally:
        child.kill()
        child.wait()


_listdir = os.listdir


def _without_threads(path: str) -> list[str]:
    if path.endswith("/task"):
        raise FileNotFoundError(path)
    return _listdir(path)
