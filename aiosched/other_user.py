"""Running code of DAG authors as another user of this machine, who cannot reach what the scheduler's user can.

A process changes its user with `become`: groups, group, user, capabilities; for a moment, to read a file, with
`rights_of`. A program is started as another user with `command_as`: this file is run, changes the user and replaces
itself. It imports the standard library only, since it is then run isolated: nothing of that user is imported before the
change.

Source: docs/isolation.md.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pwd
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

_NEEDED: Final = {"CAP_KILL": 5, "CAP_SETGID": 6, "CAP_SETUID": 7}  # the numbers of their bits
_PR_SET_DUMPABLE: Final = 4
_PR_CAP_AMBIENT: Final = 47
_PR_CAP_AMBIENT_CLEAR_ALL: Final = 4
_CAPABILITY_VERSION: Final = 0x20080522
_SECONDS: Final = 60.0

# Run as the other user: imports a program, and says which of the paths it cannot read or enter.
_CHECK: Final = """
import importlib, json, os, sys
importlib.import_module(sys.argv[1])
print(json.dumps([path for path in sys.argv[2:] if not os.access(path, os.R_OK | os.X_OK)]))
"""


class OtherUser(NamedTuple):
    """A user of this machine, with all of its groups."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str


def other_user(name: str, setting: str) -> OtherUser:
    """The user of this name. Raises ConfigError, which names the `setting`, if no code of authors may run as it."""
    from aiosched.errors import ConfigError

    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise ConfigError(
            f"{setting} is {name!r}, and this machine has no such user. Create it (`useradd --system --create-home "
            f"{name}`), or name another one."
        ) from None
    if found.pw_uid in (0, os.geteuid()):
        whose = "root" if found.pw_uid == 0 else "the scheduler's own user"
        raise ConfigError(
            f"{setting} is {name!r}, which is {whose}: code of DAG authors could reach everything that the scheduler "
            "can. Name a user of its own."
        )
    return OtherUser(name, found.pw_uid, found.pw_gid, tuple(os.getgrouplist(name, found.pw_gid)), found.pw_dir)


def uid_of(name: str | None) -> int:
    """The number of a user, of this process's if it is None; -1 if there is none of that name."""
    try:
        return os.geteuid() if name is None else pwd.getpwnam(name).pw_uid
    except KeyError:
        return -1


def missing_rights() -> list[str]:
    """The capabilities that this process lacks to run others as another user, and to end them; root has them all."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        held = next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff:"))
    except (OSError, StopIteration):
        return [] if os.geteuid() == 0 else list(_NEEDED)
    return [name for name, bit in _NEEDED.items() if not held >> bit & 1]


def check_rights(setting: str) -> None:
    """Raise ConfigError, which names the `setting`, if this process may not change users."""
    from aiosched.errors import ConfigError

    if missing := missing_rights():
        raise ConfigError(
            f"{setting} needs the right to change users, and this process has no {', '.join(missing)}. Run aiosched as "
            "root, or give it these capabilities (systemd: AmbientCapabilities=CAP_SETUID CAP_SETGID CAP_KILL), or "
            "unset it."
        )


def check_access(user: OtherUser, setting: str, folders: Sequence[Path], *, program: str) -> None:
    """Raise ConfigError if the user cannot run the `program`, a module's name, or cannot read one of the folders.

    Folders that do not exist are left out. Blocks for a moment: a process tries it.
    """
    from aiosched.errors import ConfigError

    paths = [str(folder) for folder in folders if folder.is_dir()]
    command = command_as(user, [sys.executable, "-P", "-c", _CHECK, program, *paths])
    try:
        tried = subprocess.run(
            command, env=environment_of(user, os.environ), capture_output=True, text=True, timeout=_SECONDS, check=False
        )  # fmt: skip
        unreadable = json.loads(tried.stdout) if tried.returncode == 0 else None
        said = tried.stderr.strip().rpartition("\n")[2]
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        unreadable, said = None, str(error)
    if unreadable is None:
        python = Path(sys.executable).resolve()
        closed = next((folder for folder in reversed(python.parents) if not _may_enter(user, folder)), None)
        why = f"it is {python}, and that user cannot enter {closed}" if closed is not None else said or "no reason"
        raise ConfigError(
            f"{setting}: the user {user.name!r} cannot run aiosched with {sys.executable} ({why}). Install aiosched, "
            "and the Python below it, where that user can read them: /usr/bin/python3 -m venv /opt/aiosched, say."
        )
    if unreadable:
        raise ConfigError(
            f"{setting}: the user {user.name!r} cannot read {', '.join(unreadable)}. Let it: `chmod o+rx` on the "
            "folder and `chmod o+x` on those above it, or move the folder, for example to /srv."
        )


def _may_enter(user: OtherUser, folder: Path) -> bool:
    """By the mode of a folder; lists of access rights are not looked at."""
    found = folder.stat()
    bit = stat.S_IXUSR if found.st_uid == user.uid else stat.S_IXGRP if found.st_gid in user.groups else stat.S_IXOTH
    return bool(found.st_mode & bit)


@contextlib.contextmanager
def rights_of(user: OtherUser | None) -> Iterator[None]:
    """Open files with the rights of that user (None: one's own) for a moment. For a process with one thread."""
    if user is None:
        yield
        return
    before, groups, group = os.geteuid(), os.getgroups(), os.getegid()
    os.setgroups(user.groups)
    os.setegid(user.gid)
    os.seteuid(user.uid)
    try:
        yield
    finally:
        os.seteuid(before)
        os.setegid(group)
        os.setgroups(groups)


def environment_of(user: OtherUser, environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` as that user has it: its home and its name."""
    return {**environ, "HOME": user.home, "USER": user.name, "LOGNAME": user.name}


def command_as(user: OtherUser, command: Sequence[str]) -> list[str]:
    """The command that runs `command` as `user`; its first word is a path."""
    groups = ",".join(map(str, user.groups))
    change = [sys.executable, "-I", "-S", str(Path(__file__).absolute())]
    return [*change, str(user.uid), str(user.gid), groups, user.home, *command]


def become(uid: int, gid: int, groups: Sequence[int]) -> None:
    """Change the user of this process for good. Raises OSError."""
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    if sys.platform == "linux":
        _drop_capabilities()
    if os.getresuid() != (uid, uid, uid) or os.getresgid() != (gid, gid, gid):
        raise PermissionError(f"the user {uid} and the group {gid} were not taken")


def _drop_capabilities() -> None:
    """Without this a process that was not started by root would keep the right to change its user again."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)  # older kernels have none
    header, none = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    if libc.capset(header, none) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # else the files of this process in /proc belong to root


def _main(uid: str, gid: str, groups: str, home: str, *command: str) -> None:
    become(int(uid), int(gid), [int(group) for group in groups.split(",")])
    if not os.access(".", os.X_OK):
        os.chdir(home if os.access(home, os.X_OK) else "/")
    if not os.access(os.environ.get("TMPDIR", "/"), os.R_OK | os.X_OK):
        del os.environ["TMPDIR"]
    os.execv(command[0], command)  # noqa: S606 no shell is wanted


if __name__ == "__main__":
    _main(*sys.argv[1:])
