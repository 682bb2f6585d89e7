"""Network interfaces of this machine change only while no page is tested: Chromium aborts what it has asked for then.

The tests of the two workers of pytest share the machine. `unchanged` is for tests with a browser, `changing` for those
that make or remove an interface: each waits for the other.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_LOCK: Final = Path(tempfile.gettempdir()) / f"aiosched-tests-network-{os.getuid()}.lock"


@contextlib.contextmanager
def _locked(kind: int) -> Iterator[None]:
    with _LOCK.open("a") as file:
        fcntl.flock(file, kind)
        yield


def unchanged() -> contextlib.AbstractContextManager[None]:
    """No interface is made or removed in the block."""
    return _locked(fcntl.LOCK_SH)


def changing() -> contextlib.AbstractContextManager[None]:
    """No page is tested in the block."""
    return _locked(fcntl.LOCK_EX)
