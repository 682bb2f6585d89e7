"""Linux kernel requests of a process about its parent, its orphans and its memory. No-ops on other systems."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from functools import cache
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_SET_CHILD_SUBREAPER: Final = 36
_OOM_SCORE: Final = b"500"  # of 1,000: above a database or a scheduler that uses up to half of the memory


def die_with_parent(parent: int, signum: int = signal.SIGKILL) -> None:
    """Have this process get `signum` when its parent, process `parent`, dies. Raises OSError."""
    if _prctl(_PR_SET_PDEATHSIG, signum) and os.getppid() != parent:  # the parent died before the call
        os.kill(os.getpid(), signum)


def inherit_orphans() -> bool:
    """Become the parent of descendants whose own parent ends; returns whether the system supports that.

    Raises OSError.
    """
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def hide_memory() -> None:
    """Have no other process of this user read the memory of this one, its environment or its descriptors, or trace it.

    Root still can, and programs that this process starts are as before. It also leaves no core dump. Raises OSError.
    """
    _prctl(_PR_SET_DUMPABLE, 0)


def die_first_for_memory() -> None:
    """Have the kernel end this process, and those that it will start, before others when no memory is left."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "wb") as file:  # noqa: PTH123
        file.write(_OOM_SCORE)


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
