"""Network interfaces of this machine change only while no page is tested: Chromium aborts what it has asked for then.

The tests of pytest's workers share the machine. `unchanged` is for tests with a browser, `changing` for those that make
or remove an interface: any number of one kind run side by side, and each kind waits for the other.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

_FOLDER = Path(tempfile.gettempdir())


def unchanged() -> contextlib.AbstractContextManager[None]:
    """No interface is made or removed in the block."""
    return _while_nobody("changes", but="pages")


def changing() -> contextlib.AbstractContextManager[None]:
    """No page is tested in the block."""
    return _while_nobody("pages", but="changes")


@contextlib.contextmanager
def _while_nobody(others: str, *, but: str) -> Iterator[None]:
    with _lock_file(but) as ours, _lock_file(others) as theirs:
        fcntl.flock(ours, fcntl.LOCK_SH)
        while not _is_free(theirs):  # whoever comes later sees that we are here
            fcntl.flock(ours, fcntl.LOCK_UN)
            fcntl.flock(theirs, fcntl.LOCK_EX)
            fcntl.flock(theirs, fcntl.LOCK_UN)
            fcntl.flock(ours, fcntl.LOCK_SH)
        yield


def _lock_file(kind: str) -> IO[str]:
    return (_FOLDER / f"aiosched-tests-{kind}-{os.getuid()}.lock").open("a")


def _is_free(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(file, fcntl.LOCK_UN)
    return True
