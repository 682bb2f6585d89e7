"""Linux kernel requests of a process about its parent and its orphans. No-ops on other systems."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from functools import cache
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36


def die_with_parent(parent: int, signum: int = signal.SIGKILL) -> None:
    """Have this process get `signum` when its parent, process `parent`, dies. Raises OSError."""
    if _prctl(_PR_SET_PDEATHSIG, signum) and os.getppid() != parent:  # the parent died before the call
        os.kill(os.getpid(), signum)


def inherit_orphans() -> bool:
    """Become the parent of descendants whose own parent ends; returns whether the system supports that.

    Raises OSError.
    """
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    if _libc().prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return True


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
