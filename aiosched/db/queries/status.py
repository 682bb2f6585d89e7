"""The state of parsing, for people: files, import errors, counts. Read only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select

from aiosched.db.queries.queries import fetch, shown_words
from aiosched.db.schema.schema import dag, dag_file
from aiosched.db.server.engine import Database


@dataclass(frozen=True, slots=True)
class ImportErrorRow:
    """Why a DAG file cannot be imported. `file` is relative to the DAGs folder."""

    file: str
    error: str
    line: int | None
    code_frame: str | None
    traceback: str | None
    dag_ids: tuple[str, ...]
    parsed_at: datetime | None
    since: datetime | None  # when it failed first; parses that succeeded lie before that


@dataclass(frozen=True, slots=True)
class ParsingSummary:
    """A summary of parsing: the numbers of files, of files with errors, and of DAGs that are not stale; the latest
    parse."""

    files: int
    errors: int
    dags: int
    parsed_at: datetime | None
    seconds: float  # the sum of every file's last parse


async def count_import_errors(db: Database) -> int:
    """The number of files whose last parse failed."""
    (row,) = await fetch(db, select(func.count()).select_from(dag_file).where(dag_file.c.error.is_not(None)))
    return int(row[0])


async def list_import_errors(db: Database, *, after: str | None = None, limit: int = 100) -> list[ImportErrorRow]:
    """Files whose last parse failed, by name, after the file `after`."""
    query = (
        select(
            dag_file.c.file,
            dag_file.c.error,
            dag_file.c.error_line.label("line"),
            dag_file.c.code_frame,
            dag_file.c.traceback,
            dag_file.c.dag_ids,
            dag_file.c.parsed_at,
            func.coalesce(dag_file.c.error_since, dag_file.c.parsed_at).label("since"),
        )
        .where(dag_file.c.error.is_not(None))
        .order_by(dag_file.c.file)
        .limit(limit)
    )
    if after is not None:
        query = query.where(dag_file.c.file > after)
    return [ImportErrorRow(**{**row._mapping, "dag_ids": shown_words(row.dag_ids)}) for row in await fetch(db, query)]


@dataclass(frozen=True, slots=True)
class FileStatus:
    """A DAG file and its last parse, which took `seconds`."""

    file: str
    dag_ids: tuple[str, ...]
    parsed_at: datetime | None
    seconds: float | None
    has_error: bool
    warnings: tuple[str, ...]


async def list_files(
    db: Database, *, failed: bool | None = None, after: str | None = None, limit: int = 100
) -> list[FileStatus]:
    """DAG files by name, after the file `after`; `failed`: only those whose last parse failed, or did not."""
    query = (
        select(
            dag_file.c.file,
            dag_file.c.dag_ids,
            dag_file.c.parsed_at,
            dag_file.c.parse_seconds.label("seconds"),
            dag_file.c.error.is_not(None).label("has_error"),
            dag_file.c.warnings,
        )
        .order_by(dag_file.c.file)
        .limit(limit)
    )
    if failed is not None:
        query = query.where(dag_file.c.error.is_not(None) == failed)
    if after is not None:
        query = query.where(dag_file.c.file > after)
    rows = await fetch(db, query)
    return [
        FileStatus(**{**row._mapping, "dag_ids": shown_words(row.dag_ids), "warnings": shown_words(row.warnings)})
        for row in rows
    ]


async def parsing_summary(db: Database) -> ParsingSummary:
    """Counts over all DAG files and DAGs."""
    dags = select(func.count()).select_from(dag).where(~dag.c.is_stale).scalar_subquery()
    query = select(
        func.count().label("files"),
        func.count(dag_file.c.error).label("errors"),
        dags.label("dags"),
        func.max(dag_file.c.parsed_at).label("parsed_at"),
        func.coalesce(func.sum(dag_file.c.parse_seconds), 0.0).label("seconds"),
    )
    (row,) = await fetch(db, query)
    return ParsingSummary(**row._mapping)
