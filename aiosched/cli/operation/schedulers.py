"""`aiosched schedulers`: list and check."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final

import typer

from aiosched.cli.base.options import Dsn, Output
from aiosched.cli.base.output import Columns, counted, show_list, talk
from aiosched.cli.base.session import with_database
from aiosched.core.values.ids import PARTITIONS
from aiosched.errors import DatabaseError

if TYPE_CHECKING:
    from aiosched.db.queries.schedulers import SchedulerRow
    from aiosched.db.server.engine import Database
    from aiosched.db.statements.parsers import ParserRow

app: typer.Typer = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, add_completion=False, help="Schedulers of this database."
)

_COLUMNS: Final[Columns[SchedulerRow]] = {
    "SCHEDULER": lambda row: row.name or row.hostname,
    "STATUS": lambda row: row.status,
    "LEASE AGE": lambda row: f"{row.lease_age:.1f} s",
    "PARTITIONS": lambda row: row.partitions,
    "LOAD": lambda row: f"{row.load:,.1f}/s",
    "EXECUTOR": lambda row: row.executor,
    "SLOTS": lambda row: row.slots,
    "HOST": lambda row: row.hostname,
    "PID": lambda row: row.pid,
    "STARTED": lambda row: row.started_at,
    "VERSION": lambda row: row.version,
    "INCARNATION": lambda row: row.incarnation,
}


@app.command("list")
def list_(dsn: Dsn = None, output: Output = None) -> None:
    """List schedulers: alive, age of the lease, partitions and their load, slots. The load is how many rows of task
    instances it stores in a second; partitions are shared by it."""
    from aiosched.db.queries.schedulers import list_schedulers

    rows = with_database(dsn, list_schedulers)
    show_list(rows, _COLUMNS, output, empty="no scheduler is running; start one with: aiosched serve")
    if output is None:
        for row in rows:
            for line in _engines(row):
                talk(line)


def _engines(row: SchedulerRow) -> Iterator[str]:
    """What a living scheduler sees of the workers and queues of its engines, for people."""
    for name, room in (row.figures or {}).get("executor", {}).items() if row.alive else ():
        if (engine := room.get("engine")) is None:
            continue
        queues = "".join(f", queue {queue!r}: {length}" for queue, length in sorted(engine["queues"].items()))
        workers, all_slots = counted(engine["workers"], "worker"), counted(engine["slots"], "slot")
        yield f"{row.name} sees {workers} of {name} with {all_slots}{queues}"
        for worker, slots, jobs in engine["listed"]:
            yield f"  {worker}: {counted(slots, 'slot')}, {counted(jobs, 'job')}"


@app.command()
def check(
    local: Annotated[bool, typer.Option("--local", help="Only schedulers and parsers of this host count.")] = False,
    restart: Annotated[
        bool,
        typer.Option(
            "--restart", help="Fail only if a restart may help, for liveness probes: not while the database is away."
        ),
    ] = False,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Exit 0 if a scheduler is alive and its event loop responds, else 1; for health checks of containers. With --local
    a parser of this host counts, too."""
    from aiosched.db.queries.schedulers import list_schedulers
    from aiosched.db.statements.parsers import list_parsers

    async def read(db: Database) -> tuple[list[SchedulerRow], list[ParserRow]]:
        rows = await list_schedulers(db)
        if not local:
            return rows, []
        async with db.acquire() as conn:
            return rows, [row for row in await list_parsers(conn) if row.hostname == host]

    host = socket.gethostname()
    try:
        everybody, parsers = with_database(dsn, read)
    except DatabaseError as error:
        if not restart:
            raise
        talk(f"a restart would not help: {error}")
        return
    rows = [row for row in everybody if not local or row.hostname == host]
    owned = sum(row.partitions for row in everybody if row.alive)
    alive = [row for row in rows if row.alive and not row.stalled]
    where = f" on {host}" if local else ""
    if output is not None:
        show_list(rows, _COLUMNS, output, empty="")
    talk(
        f"{len(alive)} of {len(rows)} schedulers{where} alive; {owned} of {PARTITIONS} partitions have a living owner"
        if rows
        else f"no scheduler{where} is running"
    )
    for parser in parsers:
        talk(str(parser))
    for row in rows:
        if row.stalled:
            talk(f"the event loop of {row.name} has been blocked for {row.stalled:.0f} s; its log names the line")
    if not alive and not any(parser.alive for parser in parsers):
        raise typer.Exit(1)
