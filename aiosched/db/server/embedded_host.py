"""Host requirements of the embedded server: its programs, a non-root user, a location for its socket."""

from __future__ import annotations

import contextlib
import hashlib
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
from secrets import token_hex
from typing import Any, Final

from aiosched.errors import DatabaseError

log: logging.Logger = logging.getLogger(__name__)

SYSTEM_FOLDER: Final = Path("/var/lib/aiosched")  # of root, for what its home does not let the server's user reach
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
    def of_this_process(cls) -> Account:
        return cls(os.geteuid(), os.getegid(), switch=False)

    @classmethod
    def for_data(cls, data_dir: Path) -> Account:
        """The current user; for root, the owner of existing data, else a system user."""
        if os.geteuid() != 0:
            return cls.of_this_process()
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
    """Make the server's account the owner of `folder`. Raises DatabaseError if it cannot enter the way there.

    No right is added to the folders above: they are the user's, and may be closed on purpose.
    """
    if not account.switch:
        return
    if folder.stat().st_uid != account.uid:
        os.chown(folder, account.uid, account.gid)
    if (closed := first_closed(folder.parent, account)) is not None:
        raise _closed(folder, closed, account)


def first_closed(folder: Path, account: Account) -> Path | None:
    """The outermost of `folder` and the folders above it that the account cannot enter; None if it can enter all."""
    for each in (*reversed(folder.parents), folder):
        found = each.stat()
        owned, grouped = found.st_uid == account.uid, found.st_gid == account.gid
        needed = stat.S_IXUSR if owned else stat.S_IXGRP if grouped else stat.S_IXOTH
        if not found.st_mode & needed:
            return each
    return None


def place_for(data_dir: Path, account: Account) -> Path:
    """Where a new data directory is made: at its own path, or in SYSTEM_FOLDER if the account cannot get there.

    That is so for root, whose home others cannot enter; then `data_dir` is to be a link to the place. Raises
    DatabaseError.
    """
    if not account.switch or (closed := first_closed(data_dir.parent, account)) is None:
        return data_dir
    name = f"{data_dir.parent.name.strip('.') or 'home'}-{token_hex(6)}"
    try:
        return _system_folder(account) / name
    except OSError as error:
        raise _closed(data_dir, closed, account) from error


def _system_folder(account: Account) -> Path:
    """SYSTEM_FOLDER, which is made if need be. Raises OSError if others can change it, or the account cannot enter."""
    SYSTEM_FOLDER.mkdir(mode=0o755, parents=True, exist_ok=True)
    found = SYSTEM_FOLDER.stat()
    if found.st_uid != 0 or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"{SYSTEM_FOLDER} can be changed by others than root")
    if first_closed(SYSTEM_FOLDER, account) is not None:
        raise PermissionError(f"{SYSTEM_FOLDER} is closed")
    return SYSTEM_FOLDER


def _closed(folder: Path, closed: Path, account: Account) -> DatabaseError:
    name = pwd.getpwuid(account.uid).pw_name
    mode = stat.S_IMODE(closed.stat().st_mode)
    return DatabaseError(
        f"PostgreSQL does not run as root, and the user {name!r} that runs it instead cannot enter {closed} (mode "
        f"{mode:04o}), which is on the way to {folder}. Choose a --home that this user can enter, such as "
        f"/srv/aiosched, or let it pass: `chmod o+x {closed}`."
    )


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
    """Make `folder` accessible to the account alone; returns False if another user owns it, or it cannot get there."""
    if account.switch and first_closed(folder.parent, account) is not None:
        return False
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


@cache
def programs(account: Account, folder: Path) -> Path:
    """The `folder` with a server's programs, as the account can run them.

    An installation that it cannot get to, as in root's home, is copied to SYSTEM_FOLDER once. Raises DatabaseError.
    """
    installation = folder.parent
    if not account.switch:
        return folder
    closed = first_closed(installation, account)
    if closed is None:
        _make_readable(installation)
        return folder
    server = (folder / "postgres").stat()
    name = f"programs-{server.st_size:x}-{server.st_mtime_ns:x}"
    try:
        copy = _system_folder(account) / name
        if not copy.is_dir():
            _copy_programs(installation, copy)
    except OSError as error:
        raise _closed(installation, closed, account) from error
    return copy / installation.parent.name / installation.name / "bin"


def _copy_programs(installation: Path, copy: Path) -> None:
    """Copy an installation with the libraries beside its package, which it finds by its relative path."""
    scratch = Path(tempfile.mkdtemp(prefix=f"{copy.name}.", dir=copy.parent))
    try:
        scratch.chmod(0o755)
        package, libraries = installation.parent.name, _libraries(installation)
        shutil.copytree(installation, scratch / package / installation.name, symlinks=True)
        if libraries.is_dir():
            shutil.copytree(libraries, scratch / libraries.name, symlinks=True)
        _make_readable(scratch / package / installation.name)
        (scratch / package).chmod(0o755)
        with contextlib.suppress(FileExistsError):  # another process was faster
            try:
                scratch.rename(copy)
            except OSError:
                if not copy.is_dir():
                    raise
        log.info("copied the programs of the embedded PostgreSQL to %s", copy)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _libraries(installation: Path) -> Path:
    """The libraries of a repaired wheel."""
    return installation.parent.with_name(f"{installation.parent.name}.libs")


def _make_readable(installation: Path) -> None:
    """Let another user run the programs if root's umask made their files private; folders above stay as they are."""
    if (installation / "bin" / "postgres").stat().st_mode & stat.S_IXOTH:
        return
    for folder in (installation, _libraries(installation)):
        for each in (folder, *folder.rglob("*")):
            if each.exists() and not each.is_symlink():
                mode = stat.S_IMODE(each.stat().st_mode)
                each.chmod(mode | stat.S_IROTH | (stat.S_IXOTH if each.is_dir() or mode & stat.S_IXUSR else 0))
    log.debug("made %s readable for the user that runs the embedded PostgreSQL", installation)
