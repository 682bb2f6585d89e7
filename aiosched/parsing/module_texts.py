"""Reads the texts of the modules that a DAG file has imported, for people.

An import knows its modules by their content hashes. A text is kept only if its file still has that content, so what is
kept is what was imported, whatever happened since. What is too large or gone has no text. The names come from a process
that ran user code: they are not trusted.
"""

from __future__ import annotations

import io
import logging
import re
import zipfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from importlib.util import decode_source
from pathlib import Path, PurePosixPath
from typing import Any, Final, Protocol

import asyncpg

from aiosched.authoring.base.file_stamps import read_whole
from aiosched.authoring.dag.sources import digest_of
from aiosched.bundles.names import path_in
from aiosched.core.values.texts import storable
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements import module_sources
from aiosched.parsing.result import ParsedFile

log: Final = logging.getLogger(__name__)

MOST_IN_FILE: Final = 2**20  # bytes of a module, or of an archive of modules
MOST_AT_ONCE: Final = 2**23  # bytes of what one DAG file imports
# No such table or no right to it, or a text that cannot be stored.
_HOPELESS: Final = (asyncpg.SyntaxOrAccessError, asyncpg.DataError, asyncpg.ProgramLimitExceededError)
_DIGEST: Final = re.compile("[0-9a-f]{64}")


class InDatabase(Protocol):
    """Runs work in a transaction of its own, until the database takes it."""

    async def __call__(self, work: Callable[[DatabaseConnection], Awaitable[Any]], /) -> Any: ...


class Read(Protocol):
    """See `read_texts`. Raises OSError."""

    async def __call__(self, root: Path, wanted: Mapping[str, str], /) -> dict[str, str]: ...


async def keep_texts(in_database: InDatabase, results: Sequence[ParsedFile], read: Read) -> None:
    """Store the texts of what these files have imported, unless they are stored; before the versions that name them.

    The texts of one file are in memory at a time.
    """
    wanted = [(result.root, _modules_of(result)) for result in results]
    if not (digests := {digest for _, modules in wanted for digest in modules.values()}):
        return
    kept = set(await in_database(_spared(partial(module_sources.need, digests=digests))) or ())
    for root, modules in wanted:
        if missing := {name: digest for name, digest in modules.items() if digest not in kept}:
            try:
                texts = await read(Path(root), missing)
            except OSError as error:
                log.warning("the sources of modules in %s are not stored: %s", root, error.strerror)
                continue
            if texts:
                await in_database(_spared(partial(module_sources.store, texts=texts)))
            kept |= texts.keys()


def _spared(work: Callable[[DatabaseConnection], Awaitable[Any]]) -> Callable[[DatabaseConnection], Awaitable[Any]]:
    """That work; what the database will never take is logged and gives None, so that it holds up no version."""

    async def spared(conn: DatabaseConnection) -> Any:
        try:
            async with conn.transaction():
                return await work(conn)
        except _HOPELESS as error:
            log.warning("the sources of modules that DAG files import cannot be stored: %s", error)
            return None

    return spared


def _modules_of(result: ParsedFile) -> dict[str, str]:
    """The content hashes of what a file with DAGs has imported besides itself, by path below its root."""
    if not result.dags:
        return {}
    return {
        path_in(result.bundle, name): digest
        for name, digest in (result.sources or {}).items()
        if name != result.name and _DIGEST.fullmatch(digest)
    }


def read_texts(root: Path, wanted: Mapping[str, str]) -> dict[str, str]:
    """The texts of files by content hash; `wanted` are those hashes by path relative to `root`.

    For a process that can read no more than the authors: it tells them whether a guess about a file's content is right.
    """
    found: dict[str, str] = {}
    left = MOST_AT_ONCE
    for name, digest in sorted(wanted.items()):
        if digest in found or (content := _content(root, name, min(left, MOST_IN_FILE))) is None:
            continue
        left -= len(content)
        if digest_of(content) == digest and (text := _text(content)) is not None:
            found[digest] = storable(text)
    return found


def _content(root: Path, name: str, most: int) -> bytes | None:
    """The content of a regular file with at most so many bytes; None for any other, and if it cannot be read."""
    if name.startswith("/") or ".." in PurePosixPath(name).parts or "\0" in name:
        return None
    try:
        return read_whole(root / name, most=most)[0]
    except (OSError, ValueError):  # ValueError: no possible name
        return None


def _text(content: bytes) -> str | None:
    """The source as Python reads it; of an archive, its modules one after another. None: too large, or damaged."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return _decoded(content)
    parts, left = [], MOST_IN_FILE
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for name in sorted(name for name in archive.namelist() if name.endswith(".py")):
                with archive.open(name) as member:
                    unpacked = member.read(left + 1)  # not what its header claims
                left -= len(unpacked)
                if left < 0:
                    return None
                parts.append(f"# {name}\n{_decoded(unpacked)}")
    except Exception:  # damaged archives raise anything
        return None
    return "\n".join(parts)


def _decoded(content: bytes) -> str:
    try:
        return decode_source(content)
    except (SyntaxError, UnicodeDecodeError, LookupError):
        return content.decode("utf-8", "backslashreplace")
