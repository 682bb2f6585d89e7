"""What the embedded server needs from the machine: programs, a user, a place for its socket."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from aiosched.db.server import embedded_host
from aiosched.db.server.embedded_host import Account, socket_folder
from aiosched.errors import DatabaseError


def test_a_short_folder_that_somebody_else_prepared_is_not_used(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir = Path("/" + "d" * 120)
    account = Account(os.geteuid(), os.getegid(), switch=False)
    monkeypatch.setattr(tempfile, "tempdir", str(short_path))
    first = socket_folder(data_dir, account)
    first.rmdir()
    first.symlink_to("/")

    second = socket_folder(data_dir, account)
    second.rmdir()

    assert first.parent == short_path
    assert second == Path("/tmp") / first.name


def test_programs_installed_for_root_alone_are_opened_for_reading_not_for_writing(short_path: Path) -> None:
    installation = short_path / "wheel" / "pginstall18"
    program, shared, library = installation / "bin/postgres", installation / "share/x", short_path / "wheel.libs/y.so"
    for path in (program, shared, library):
        path.parent.mkdir(mode=0o700, parents=True)
        path.touch(mode=0o600)
    program.chmod(0o700)

    embedded_host._make_readable(installation)

    modes = [stat.S_IMODE(path.stat().st_mode) for path in (installation, program, shared, library.parent, library)]
    assert modes[1:] == [0o705, 0o604, 0o705, 0o604]
    assert modes[0] & 0o007 == 0o005


def test_root_without_any_other_user_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> None:
        raise KeyError(name)

    monkeypatch.setattr("pwd.getpwnam", unknown)
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("os.geteuid", lambda: 0)

    with pytest.raises(DatabaseError, match="refuses to run as root"):
        Account.for_data(Path("/nowhere"))
