"""Statements on `parser`: processes that parse DAG files and run no scheduler. A scheduler says it in its figures.

A row is renewed by its process while that works, and deleted when it ends as it was asked to. One that is silent stays,
to be named for a day, until a parser of the same bundles has taken its place. Compared by PostgreSQL's clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from aiosched.core.values.durations import duration
from aiosched.db.server.connection import DatabaseConnection

SILENT_AFTER: Final = 30.0  # seconds without a heartbeat
FORGOTTEN_AFTER: Final = 86_400.0


class ParserFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What a parser says of itself. `listed_at`: when it has last looked at all files; `unread`: files left of its
    first pass; `waits_for`: why that cannot end; `trouble`: the error after which it began again, until it works."""

    listed_at: datetime | None = None
    files: int = 0
    errors: int = 0
    unread: int = 0
    waits_for: str | None = None
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class ParserRow:
    """One parser. `silent_for`: seconds since its last heartbeat. `figures`: as of then; None: of another version."""

    name: str
    hostname: str
    pid: int
    version: str
    bundles: tuple[str, ...]  # empty: the DAGs folder
    started_at: datetime
    silent_for: float
    figures: ParserFigures | None

    @property
    def alive(self) -> bool:
        return self.silent_for <= SILENT_AFTER

    @property
    def reads(self) -> str:
        """What it reads, in words."""
        if not self.bundles:
            return "the DAGs folder"
        return f"the bundle{'' if len(self.bundles) == 1 else 's'} {', '.join(self.bundles)}"

    def __str__(self) -> str:
        """What it does, or what is wrong with it."""
        said = self.figures or ParserFigures()
        if not self.alive:
            last = said.trouble or said.waits_for
            text = f"no heartbeat from the parser {self.name} for {duration(self.silent_for)}, which reads {self.reads}"
            return text if last is None else f"{text}; it said last: {last}"
        if said.trouble is not None:
            return f"the parser {self.name} fails, and tries again: {said.trouble}"
        if said.waits_for is not None:
            return f"the parser {self.name} waits: {said.waits_for}"
        if said.unread:
            left = f"{said.unread} of {said.files} files are left of its first pass"
            return f"the parser {self.name} reads {self.reads}, {left}"
        looked = "" if said.listed_at is None else f", last looked at {said.listed_at:%Y-%m-%d %H:%M:%SZ}"
        return f"the parser {self.name} reads {self.reads}{looked}"


class Severity(StrEnum):
    """How bad what is said of parsing is."""

    NONE = "none"
    ATTENTION = "attention"
    BROKEN = "broken"


class ParserRemark(NamedTuple):
    """What is to be said of parsing; `fix`: what to do about it."""

    severity: Severity
    text: str
    fix: str | None = None


def remarks_on(parsers: Sequence[ParserRow], *, is_read: bool, files: int) -> list[ParserRemark]:
    """What is to be said of who parses. `is_read`: some process reads DAG files; `files`: how many are known. Pure.

    >>> remarks_on([], is_read=False, files=3)[0].text
    'no process reads DAG files: changes are not noticed'
    """
    found = [_remark(row, is_read=is_read) for row in parsers]
    if files and not is_read and all(row.alive for row in parsers):
        text = "no process reads DAG files: changes are not noticed"
        found.append(ParserRemark(Severity.BROKEN, text, "aiosched serve --role parser"))
    return found


def _remark(row: ParserRow, *, is_read: bool) -> ParserRemark:
    said = row.figures or ParserFigures()
    if not row.alive:
        fix = f"look at {row.hostname}, and start it again: aiosched serve --role parser"
        return ParserRemark(Severity.ATTENTION if is_read else Severity.BROKEN, str(row), fix)
    if said.trouble is not None:
        fix = "its log has the details; it ends after five minutes, to be started again"
        return ParserRemark(Severity.BROKEN, str(row), fix)
    if said.waits_for is not None:
        return ParserRemark(Severity.ATTENTION, str(row), "its log says why; aiosched doctor, where it runs")
    return ParserRemark(Severity.NONE, str(row))


REGISTER: Final = """
    INSERT INTO parser (name, hostname, pid, version, bundles, figures) VALUES ($1, $2, $3, $4, $5, $6::json)
    RETURNING id
"""


async def register(
    conn: DatabaseConnection,
    *,
    name: str,
    hostname: str,
    pid: int,
    version: str,
    bundles: Sequence[str],
    figures: ParserFigures,
) -> str:
    """Enter a parser that starts; returns the id of its row."""
    text = msgspec.json.encode(figures).decode()
    row: str = await conn.fetchval(REGISTER, name, hostname, pid, version, list(bundles), text)
    return row


RENEW: Final = "UPDATE parser SET renewed_at = now(), figures = $2::json WHERE id = $1 RETURNING bundles"

# Silent ones whose bundles this one reads, or that nobody has heard for long.
DELETE_SILENT: Final = """
    DELETE FROM parser
     WHERE id <> $1 AND (renewed_at < now() - make_interval(secs => $3)
                         AND bundles <@ $2 AND (bundles = '{}') = ($2 = '{}'::text[])
                         OR renewed_at < now() - make_interval(secs => $4))
"""


async def renew(conn: DatabaseConnection, row: str, figures: ParserFigures) -> bool:
    """Renew a row, and forget silent ones in whose place it is; False if its row is gone."""
    bundles = await conn.fetchval(RENEW, row, msgspec.json.encode(figures).decode())
    if bundles is None:
        return False
    await conn.execute(DELETE_SILENT, row, bundles, SILENT_AFTER, FORGOTTEN_AFTER)
    return True


LEAVE: Final = "DELETE FROM parser WHERE id = $1"


async def leave(conn: DatabaseConnection, row: str) -> None:
    """Remove the row of a parser that ends."""
    await conn.execute(LEAVE, row)


PARSERS: Final = """
    SELECT name, hostname, pid, version, bundles, started_at, figures,
           least(greatest(extract(epoch FROM clock_timestamp()) - extract(epoch FROM renewed_at), 0), 1e9)::float8
           AS silent_for
      FROM parser WHERE renewed_at > now() - make_interval(secs => $1) ORDER BY started_at, id
"""


async def list_parsers(conn: DatabaseConnection) -> list[ParserRow]:
    """All parsers that run alone and were heard of within a day, oldest first."""
    return [
        ParserRow(**{**dict(row), "bundles": tuple(row["bundles"]), "figures": _figures(row["figures"])})
        for row in await conn.fetch(PARSERS, FORGOTTEN_AFTER)
    ]


def _figures(text: str) -> ParserFigures | None:
    try:
        return msgspec.json.decode(text, type=ParserFigures)
    except msgspec.MsgspecError:
        return None


# Schedulers that have just started, and those of other versions, count as if they did.
IS_READ: Final = """
    SELECT EXISTS (SELECT FROM parser WHERE renewed_at > now() - make_interval(secs => $1))
        OR EXISTS (SELECT FROM scheduler
                    WHERE lease_expires_at > now()
                      AND (started_at > now() - make_interval(secs => $1)
                           OR json_typeof(figures -> 'parsing') IS DISTINCT FROM 'null'))
        OR NOT EXISTS (SELECT FROM scheduler WHERE lease_expires_at > now())
"""


async def is_read(conn: DatabaseConnection) -> bool:
    """Whether any process reads DAG files while schedulers are alive: a parser alone, or a scheduler with that role."""
    return bool(await conn.fetchval(IS_READ, SILENT_AFTER))
