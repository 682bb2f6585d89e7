"""Small helpers for operating-system processes."""

from __future__ import annotations

import os
import resource
import signal
import sys
from typing import Final

_RSS_UNIT: Final = 1 if sys.platform == "darwin" else 1024  # bytes in one unit of ru_maxrss


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


def peak_memory() -> int:
    """The peak resident size of this process, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT
