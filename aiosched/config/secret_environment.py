"""Keeps secret settings out of the environment of processes that run code of DAG authors.

Deleting a variable from `os.environ` is not enough: the kernel shows the environment with which a process was started
in `/proc/<pid>/environ`, to the same user and to root. `forget_secrets` overwrites it there as well. It cannot do so
for a shell or an init above this process: `exposed_to` finds these.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

logger: logging.Logger = logging.getLogger(__name__)

_STAT: Final = Path("/proc/self/stat")
ADVICE: Final = "name a file instead (…__FILE), start aiosched with `exec`, or set executor.run_as"
_ENV_START: Final = 48  # counted from the field behind the name of the program, which may have blanks: see proc(5)


@cache
def secret_variables() -> frozenset[str]:
    """The environment variables that set secret settings, or name a file that has one."""
    from aiosched.config.secrecy import secrecy_of
    from aiosched.config.sources import FROM_FILE, SHORT_NAMES, setting_fields, variable_of

    keys = {field.key for field in setting_fields() if secrecy_of(field.info) is not None}
    names = {variable_of(key) for key in keys} | {name for name, key in SHORT_NAMES.items() if key in keys}
    return frozenset(names | {name + FROM_FILE for name in names})


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` without the variables of secret settings: for a process that runs code of DAG authors."""
    return {name: value for name, value in environ.items() if name not in secret_variables()}


def forget_secrets(variables: frozenset[str] | None = None) -> None:
    """Remove secret settings from the environment of this process, and from what the kernel shows of it (on Linux).

    `variables` are those of `secret_variables`, for a process that does without the settings.
    """
    secret = (secret_variables() if variables is None else variables) & os.environ.keys()
    if not secret:
        return
    if sys.platform == "linux":
        _overwrite({os.fsencode(name) for name in secret})
    for name in secret:
        del os.environ[name]


class ExposedProcess(NamedTuple):
    """A process in whose environment others can read secret settings."""

    pid: int
    program: str
    variables: tuple[str, ...]

    def __str__(self) -> str:
        return f"process {self.pid} ({self.program}) has {', '.join(self.variables)} in its environment"


def exposed_to(uid: int, pids: Iterable[int]) -> list[ExposedProcess]:
    """Those of the processes whose secret settings a process of that user can read; none where there is no /proc."""
    names = {name for name in secret_variables() if not name.endswith("__FILE")}  # a path is no secret
    found = []
    for pid in pids:
        place = Path(f"/proc/{pid}")
        try:
            if uid not in (0, place.stat().st_uid):
                continue
            block = (place / "environ").read_bytes().decode(errors="replace")
            program = (place / "comm").read_text(errors="replace").strip()
        except OSError:  # it has ended, or is not ours to look at
            continue
        entries = (entry.partition("=") for entry in block.split("\0"))
        told = sorted(name for name, _, value in entries if name in names and value.strip("*"))
        if told:
            found.append(ExposedProcess(pid, program, tuple(told)))
    return found


def processes_above() -> Iterator[int]:
    """The ids of the processes that have started this one, nearest first; the last one is init."""
    pid = os.getppid()
    while pid > 0:
        yield pid
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return


def warn_of_environments(run_as: str | None) -> None:
    """Log the secret settings that tasks of this user can read in what started this process, which has forgotten them.

    None: the user of this process.
    """
    from aiosched.other_user import uid_of

    for exposed in exposed_to(uid_of(run_as), processes_above()):
        logger.warning("tasks can read secret settings: %s; %s", exposed, ADVICE)


def _overwrite(names: Collection[bytes]) -> None:
    """Replace the values of these variables by `*` in the block that the kernel has put on the stack."""
    fields = _STAT.read_text().rpartition(")")[2].split()
    start, end = int(fields[_ENV_START - 1]), int(fields[_ENV_START])
    place = start
    for entry in ctypes.string_at(start, end - start).split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if equals and name in names:
            ctypes.memset(place + len(name) + 1, ord("*"), len(value))
        place += len(entry) + 1
