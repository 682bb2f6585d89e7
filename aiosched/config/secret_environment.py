"""Keeps secret settings out of the environment of processes that run code of DAG authors.

Deleting a variable from `os.environ` is not enough: the kernel shows the environment with which a process was started
in `/proc/<pid>/environ`, to the same user and to root. `forget_secrets` overwrites it there as well.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Final

_STAT: Final = Path("/proc/self/stat")
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
