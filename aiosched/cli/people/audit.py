"""`aiosched audit`: who did what, from where; as JSON lines for other systems."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from aiosched.cli.base.options import MOST_BIGINT, Dsn, Limit, Output, read_day_or_instant
from aiosched.cli.base.output import Columns, show_list, write
from aiosched.cli.base.session import with_database

if TYPE_CHECKING:
    from aiosched.core.timetables.days import DayOrInstant
    from aiosched.db.audit.reading import AuditEntry
    from aiosched.db.server.engine import Database

app: typer.Typer = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, add_completion=False, help="The audit log: who did what, from where."
)


class ExportFormat(StrEnum):
    """The formats of an export."""

    JSONL = "jsonl"


Kind = Annotated[
    str | None, typer.Option("--kind", metavar="KIND", help="Only this kind; `user.` means all that begin with it.")
]
Who = Annotated[str | None, typer.Option("--who", metavar="NAME", help="Only what they did, such as api:ada.")]
Dag = Annotated[str | None, typer.Option("--dag", "-d", metavar="DAG", help="Only entries about this DAG.")]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="DATE", help="From here: a date, or days such as 7d.", show_default=False),
]
Until = Annotated[
    str | None,
    typer.Option("--until", metavar="DATE", help="A day inclusive, an instant exclusive.", show_default=False),
]

_COLUMNS: Final[Columns[AuditEntry]] = {
    "ENTRY": lambda entry: entry.id,
    "AT": lambda entry: entry.at,
    "WHO": lambda entry: entry.who,
    "FROM": lambda entry: entry.address,
    "WHAT": lambda entry: entry.kind,
    "ABOUT": lambda entry: entry.object,
    "DAG": lambda entry: entry.dag_id,
    "RESULT": lambda entry: entry.result,
    "TIMES": lambda entry: entry.times,
}


@app.command("list")
def list_(
    kind: Kind = None,
    who: Who = None,
    dag: Dag = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 25,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """List entries, newest first."""
    from aiosched.db.audit.reading import EntrySelection, list_entries
    from aiosched.db.names.days import entries_meant

    selection = EntrySelection(
        kind=kind, who=who, dag_id=dag, since=_instant(since, "--since"), until=_instant(until, "--until")
    )

    async def read(db: Database) -> list[AuditEntry]:
        return await list_entries(db, await entries_meant(db, selection), limit=limit)

    rows = with_database(dsn, read)
    show_list(rows, _COLUMNS, output, empty="no entries")


@app.command()
def export(
    format: Annotated[ExportFormat, typer.Option("--format", help="One JSON object a line.")] = ExportFormat.JSONL,
    kind: Kind = None,
    who: Who = None,
    dag: Dag = None,
    since: Since = None,
    until: Until = None,
    after: Annotated[
        int, typer.Option("--after", min=0, max=MOST_BIGINT, help="Only entries after the one with this id.")
    ] = 0,
    dsn: Dsn = None,
) -> None:
    """Write all entries to stdout, oldest first. The export itself is an entry, too."""
    import msgspec

    from aiosched.core.audit import kinds
    from aiosched.db.audit.entries import record
    from aiosched.db.audit.reading import EntrySelection, all_entries
    from aiosched.db.names.days import entries_meant

    selection = EntrySelection(
        kind=kind, who=who, dag_id=dag, since=_instant(since, "--since"), until=_instant(until, "--until")
    )

    chosen = {name: value for name, value in asdict(selection).items() if value is not None}

    async def work(db: Database) -> None:
        await record(db, kinds.AuditKind.AUDIT_EXPORTED, format=format.value, after=after, selection=chosen)
        async for entry in all_entries(db, await entries_meant(db, selection), after=after):
            write(msgspec.json.encode(entry).decode())

    with_database(dsn, work)


def _instant(text: str | None, option: str) -> DayOrInstant | None:
    if text is None:
        return None
    if text.endswith("d") and text[:-1].isdecimal() and len(text) < 7:
        return datetime.now(UTC) - timedelta(days=int(text[:-1]))
    return read_day_or_instant(text, option)
