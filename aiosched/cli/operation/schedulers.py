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

if TYPE_CHECKING:
    from aiosched.db.queries.status import SchedulerRow

app = typer.Typer(
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
    from aiosched.db.queries.status import list_schedulers

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
    local: Annotated[bool, typer.Option("--local", help="Only schedulers of this host count.")] = False,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Exit 0 if a scheduler is alive and its event loop responds, else 1; for health checks of containers."""
    from aiosched.db.queries.status import list_schedulers

    host = socket.gethostname()
    everybody = with_database(dsn, list_schedulers)
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
    for row in rows:
        if row.stalled:
            talk(f"the event loop of {row.name} has been blocked for {row.stalled:.0f} s; its log names the line")
    if not alive:
        raise typer.Exit(1)
