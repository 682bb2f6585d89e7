"""The embedded server for root, whose home others cannot enter: nothing of it is opened for the server's user."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import asyncpg
import pytest

from aiosched.db.server import embedded_host
from aiosched.db.server.embedded import EmbeddedPostgres, embedded_data_dir, embedded_dsn
from aiosched.db.server.embedded_host import Account, programs
from aiosched.errors import DatabaseError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has another user run the server")


@pytest.fixture
def home(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home below a folder that only root can enter, on a machine with a system folder of its own."""
    monkeypatch.setattr(embedded_host, "SYSTEM_FOLDER", short_path / "system")
    closed = short_path / "root"
    closed.mkdir(mode=0o700)
    return closed / ".aiosched"


def modes(home: Path) -> list[int]:
    return [stat.S_IMODE(folder.stat().st_mode) for folder in home.parents]


async def test_the_data_is_where_the_servers_user_can_get_and_the_home_stays_closed(home: Path) -> None:
    before = modes(home)
    data_dir = embedded_data_dir(home)

    async with EmbeddedPostgres(data_dir, durable=False) as dsn:
        assert embedded_dsn(home) == dsn
        conn = await asyncpg.connect(dsn)
        await conn.execute("CREATE TABLE kept AS SELECT 7 AS number")
        await conn.close()
    async with EmbeddedPostgres(data_dir, durable=False) as dsn:
        conn = await asyncpg.connect(dsn)
        assert await conn.fetchval("SELECT number FROM kept") == 7
        await conn.close()

    assert modes(home) == before
    place = data_dir.readlink()
    assert place.parent == embedded_host.SYSTEM_FOLDER
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert place.stat().st_uid != 0


async def test_without_a_place_for_it_the_message_says_what_to_do(home: Path) -> None:
    embedded_host.SYSTEM_FOLDER.mkdir()
    embedded_host.SYSTEM_FOLDER.chmod(0o777)
    before = modes(home)

    with pytest.raises(DatabaseError, match=rf"cannot enter {home.parent} .*--home.*chmod o\+x {home.parent}"):
        await EmbeddedPostgres(embedded_data_dir(home), durable=False).start()

    assert modes(home) == before


async def test_data_that_was_reachable_once_is_not_left_behind(home: Path) -> None:
    home.parent.chmod(0o711)
    async with EmbeddedPostgres(embedded_data_dir(home), durable=False):
        assert not embedded_data_dir(home).is_symlink()
    home.parent.chmod(0o700)

    with pytest.raises(DatabaseError, match="chmod"):
        await EmbeddedPostgres(embedded_data_dir(home), durable=False).start()

    assert modes(home)[0] == 0o700


def test_programs_below_a_closed_folder_are_copied_once(home: Path) -> None:
    installation = home.parent / "wheel" / "pginstall18"
    for path in (installation / "bin/postgres", installation / "share/x", home.parent / "wheel.libs/y.so"):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(path.name)
        path.chmod(0o700)
    account = Account(65534, 65534, switch=True)
    programs.cache_clear()

    found = programs(account, installation / "bin")

    assert (found / "postgres").read_text() == "postgres"
    assert (found.parents[2] / "wheel.libs" / "y.so").read_text() == "y.so"
    assert embedded_host.first_closed(found, account) is None
    assert stat.S_IMODE((found / "postgres").stat().st_mode) & 0o005 == 0o005
    assert stat.S_IMODE(home.parent.stat().st_mode) == 0o700
    programs.cache_clear()
    assert programs(account, installation / "bin") == found
    assert len(list(embedded_host.SYSTEM_FOLDER.iterdir())) == 1
    programs.cache_clear()
