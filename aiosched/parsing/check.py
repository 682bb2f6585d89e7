"""Parsing that stores nothing, for `dags check` and `dags test`: same file selection, same child processes."""

from __future__ import annotations

import asyncio
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import msgspec

from aiosched.authoring.base.file_stamps import read_whole
from aiosched.authoring.dag.sources import digest_of
from aiosched.bundles.kinds import code_here
from aiosched.config import Settings
from aiosched.errors import NotFound
from aiosched.parsing.author_files import AuthorFiles
from aiosched.parsing.bundle_sources import FolderSource
from aiosched.parsing.claims import assign, conflict_message
from aiosched.parsing.discovery import DagFile, Discovery, FileSelection, damage, printable, read_archive, wrong_name
from aiosched.parsing.pool import ParsingPool
from aiosched.parsing.result import FileError, ParsedFile
from aiosched.parsing.values import LookUp, ValueServer


@dataclass(frozen=True, slots=True)
class FolderPart:
    """Files that belong to one DAGs folder; of bundles, whose files have their own, it is None."""

    root: Path | None
    files: dict[str, DagFile] = field(default_factory=dict)
    errors: list[ParsedFile] = field(default_factory=list)


PATIENCE: Final = 20.0  # seconds for a look-up of a file: the embedded database may have to start first


async def check_paths(
    paths: Sequence[Path | str], settings: Settings, *, look_up: LookUp | None = None
) -> list[ParsedFile]:
    """Parse `paths` (files and folders, default: the DAGs folder or the bundles); returns the outcomes sorted by name.

    A folder is searched as the DAGs folder is, with its ignore files and safe mode; a file given by name is always
    parsed. Names are relative to the DAGs folder for files inside it, else to the given folder or the file's own
    folder. A DAG id in two files is an error of the second file. `look_up` answers what files read of variables and
    connections (None: only the environment does). Raises NotFound for a path that does not exist.
    """
    if paths or not settings.dags.bundles:
        parts = await asyncio.to_thread(_collect, [Path(p) for p in paths] or [settings.core.dags_folder], settings)
    else:
        parts = await list_bundles(settings)
    results = [result for part in parts for result in part.errors]
    for part in parts:
        results += await _parse(part, settings, look_up)
    conflicts = assign(results, owners={}, stored={}).conflicts
    return sorted((_with_conflicts(r, conflict_message(conflicts.get(r.name, ()), r.name)) for r in results), key=_name)


async def list_bundles(settings: Settings) -> list[FolderPart]:
    """The files of the newest code of the bundles on this machine."""
    roots, broken = await code_here(settings)
    found = [FolderPart(None, errors=[problem_result(name, str(why)) for name, why in broken.items()])]
    for bundle, root in roots.items():
        files = AuthorFiles(FileSelection.of(settings))
        listing = await FolderSource(bundle, root, files).list(())
        errors = [problem_result(p.name, p.message) for p in listing.problems.values()]
        found.append(FolderPart(None, dict(listing.files), errors))
    return found


async def _parse(part: FolderPart, settings: Settings, look_up: LookUp | None) -> list[ParsedFile]:
    values = None if look_up is None else ValueServer(look_up, patience=PATIENCE)
    pool = ParsingPool(settings, root="" if part.root is None else str(part.root), values=values)
    room = asyncio.Semaphore(pool.size)

    async def parse(file: DagFile) -> ParsedFile:
        async with room:
            return await pool.parse(file)

    try:
        return list(await asyncio.gather(*map(parse, part.files.values())))
    finally:
        await pool.close()


def _collect(paths: Sequence[Path], settings: Settings) -> list[FolderPart]:
    home = settings.core.dags_folder.absolute()
    parts: dict[Path, FolderPart] = {}
    for path in (p.absolute() for p in paths):
        if not path.exists():
            raise NotFound(f"{path} does not exist. Name a DAG file, or a folder with DAG files.")
        inside = path == home or home in path.parents
        root = home if inside else path if path.is_dir() else path.parent
        part = parts.setdefault(root, FolderPart(root))
        if path.is_dir():
            listing = Discovery(root, FileSelection.of(settings)).list(now_ns=time.time_ns())
            prefix = "" if path == root else path.relative_to(root).as_posix() + "/"
            part.files.update({n: f for n, f in listing.files.items() if n.startswith(prefix)})
            part.errors.extend(
                problem_result(p.name, p.message) for p in listing.problems.values() if p.name.startswith(prefix)
            )
        else:
            _add(path, root, part)
    return list(parts.values())


def _add(path: Path, root: Path, part: FolderPart) -> None:
    """Add a file that was given by name."""
    name = printable(path.relative_to(root).as_posix())
    if (wrong := wrong_name(path)) is not None:
        part.errors.append(problem_result(name, wrong))
        return
    try:
        archive = None if path.suffix == ".py" else read_archive(path)
        digest = digest_of(read_whole(path)[0]) if archive is None else archive[1]
    except zipfile.BadZipFile as error:
        part.errors.append(problem_result(name, damage(name, error)))
        return
    except OSError as error:
        part.errors.append(problem_result(name, f"{name} cannot be read: {error.strerror}"))
        return
    file = DagFile(name, path, digest, path.stat().st_mtime_ns)
    found = [file] if archive is None else [replace(file, name=f"{name}/{m}", member=m) for m in archive[0]]
    part.files.update({f.name: f for f in found})


def problem_result(name: str, message: str) -> ParsedFile:
    """The outcome of a folder entry that cannot be listed."""
    return ParsedFile(name=name, digest="", seconds=0.0, error=FileError(type="Unreadable", message=message))


def _with_conflicts(result: ParsedFile, message: str | None) -> ParsedFile:
    if message is None or result.error is not None:
        return result
    return msgspec.structs.replace(result, error=FileError(type="DuplicateDag", message=message))


def _name(result: ParsedFile) -> str:
    return result.name
