"""DAG files and their errors for people who may see some: by where a file lies, or because it has a DAG of theirs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from aiosched.db.access.team_folders import teams_of_files
from aiosched.db.queries import status
from aiosched.db.queries.status import FileStatus, ImportErrorRow
from aiosched.db.server.engine import Database
from aiosched.web.auth.sight import Sight

Row = TypeVar("Row", FileStatus, ImportErrorRow)

_PIECE: Final = 500  # rows that are read at once


async def seen_import_errors(
    db: Database, sight: Sight, *, after: str | None = None, limit: int
) -> Sequence[ImportErrorRow]:
    """Files whose last parse failed, by name, after the file `after`."""

    async def read(after: str | None, limit: int) -> Sequence[ImportErrorRow]:
        return await status.list_import_errors(db, after=after, limit=limit)

    return await _seen(db, sight, read, after, limit)


async def seen_files(
    db: Database, sight: Sight, *, failed: bool | None, after: str | None, limit: int
) -> Sequence[FileStatus]:
    """DAG files by name, after the file `after`; `failed`: only those whose last parse failed, or did not."""

    async def read(after: str | None, limit: int) -> Sequence[FileStatus]:
        return await status.list_files(db, failed=failed, after=after, limit=limit)

    return await _seen(db, sight, read, after, limit)


async def _seen(
    db: Database,
    sight: Sight,
    read: Callable[[str | None, int], Awaitable[Sequence[Row]]],
    after: str | None,
    limit: int,
) -> Sequence[Row]:
    if sight.is_whole:
        return await read(after, limit)
    found: list[Row] = []
    while len(found) < limit:
        rows = await read(after, _PIECE)
        teams = await teams_of_files(db, [row.file for row in rows])
        found += [
            replace(row, dag_ids=tuple(sight.among(row.dag_ids)))
            for row in rows
            if sight.sees_file(row.file, teams.get(row.file), row.dag_ids)
        ]
        if len(rows) < _PIECE:
            break
        after = rows[-1].file
    return found[:limit]
