"""Small helpers for operating-system processes."""

from __future__ import annotations

import os
import resource
import signal
import sys
from typing import Final

_RSS_UNIT: Final = 1 if sys.platform == "darwin" else 1024  # bytes in one unit of ru_maxrss

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def signal_group(leader: int, signum: int) -> bool:
    """Send `signum` to the process group of `leader`; False if it is gone."""
    try:
        os.killpg(leader, signum)
    except (ProcessLookupError, PermissionError):  # macOS raises the latter for a group of zombies
        return False
    return True


def describe_exit(code: int | None) -> str:
    """How a process ended, as a predicate: `was killed by SIGKILL`, `ended with exit code 3`."""
    if code is None:
        return "is gone"
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was killed by {name}"


def has_children() -> bool:
    """Whether this process has child processes, running or not yet waited for. Leaves their status alone."""
    if not hasattr(os, "waitid"):
        return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def resident_memory(pid: int) -> int | None:
    """The resident memory of a process in bytes; None if it is gone, or where the system does not say."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123
            return int(file.read().split()[1]) * _PAGE
    except OSError:
        return None


def own_memory(pid: int) -> int | None:
    """As `resident_memory`, with what is swapped out, and without pages of files, which the kernel may drop."""
    return _in_kilobytes(f"/proc/{pid}/status", (b"RssAnon:", b"RssShmem:", b"VmSwap:"))


def share_of_memory(pid: int) -> int | None:
    """As `own_memory`, with a page that n processes share as 1/n of it. Slow: the kernel visits all pages."""
    return _in_kilobytes(f"/proc/{pid}/smaps_rollup", (b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:"))


def _in_kilobytes(path: str, names: tuple[bytes, ...]) -> int | None:
    """The sum of these lines of a file in bytes; None if it cannot be read, or has none of them."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            found = [int(line.split()[1]) for line in file if line.startswith(names)]
    except OSError:
        return None
    return sum(found) * 1024 if found else None


def peak_memory() -> int:
    """The peak resident size of this process, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT
