"""DAG files and their errors for people who may see some: by where a file lies, or because it has a DAG of theirs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from aiosched.db.access.team_folders import teams_of_files
from aiosched.db.queries import status
from aiosched.db.queries.status import FileStatus, ImportErrorRow
from aiosched.db.server.engine import Database
from aiosched.web.auth.visibility import Visible
from aiosched.web.requests.seen_rows import first_seen

Row = TypeVar("Row", FileStatus, ImportErrorRow)


async def seen_import_errors(
    db: Database, visible: Visible, *, after: str | None = None, limit: int
) -> Sequence[ImportErrorRow]:
    """Files whose last parse failed, by name, after the file `after`."""

    async def read(after: str | None, limit: int) -> Sequence[ImportErrorRow]:
        return await status.list_import_errors(db, after=after, limit=limit)

    return await _seen(db, visible, read, after, limit)


async def count_import_errors(db: Database, visible: Visible, *, limit: int) -> int:
    """The number of files whose last parse failed, at most `limit`."""
    if visible.is_whole:
        return min(await status.count_import_errors(db), limit)
    return len(await seen_import_errors(db, visible, limit=limit))


async def seen_files(
    db: Database, visible: Visible, *, failed: bool | None, after: str | None, limit: int
) -> Sequence[FileStatus]:
    """DAG files by name, after the file `after`; `failed`: only those whose last parse failed, or did not."""

    async def read(after: str | None, limit: int) -> Sequence[FileStatus]:
        return await status.list_files(db, failed=failed, after=after, limit=limit)

    return await _seen(db, visible, read, after, limit)


async def _seen(
    db: Database,
    visible: Visible,
    read: Callable[[str | None, int], Awaitable[Sequence[Row]]],
    after: str | None,
    limit: int,
) -> Sequence[Row]:
    if visible.is_whole:
        return await read(after, limit)

    async def seen(rows: Sequence[Row]) -> Sequence[Row]:
        async with db.acquire() as conn:
            teams = await teams_of_files(conn, [row.file for row in rows])
        return [
            replace(row, dag_ids=tuple(visible.among(row.dag_ids)))
            for row in rows
            if visible.sees_file(row.file, teams.get(row.file), row.dag_ids)
        ]

    return await first_seen(read, seen, lambda row: row.file, after=after or "", limit=limit)
