"""`aiosched requests`: what was asked of the schedulers, and what still waits for one."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from aiosched.cli.base.options import MOST_BIGINT, Dsn, Limit, Output, Reason
from aiosched.cli.base.output import Columns, report, show_list, show_one, talk
from aiosched.cli.base.session import requester, with_database

if TYPE_CHECKING:
    from aiosched.db.queries.request_queries import RequestRow
    from aiosched.db.server.engine import Database

app: typer.Typer = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, add_completion=False, help="Requests to the owners of DAGs."
)

Number = Annotated[
    int,
    typer.Argument(metavar="REQUEST", min=1, max=MOST_BIGINT, help="The request's number.", show_default=False),
]


class State(StrEnum):
    """The states of requests."""

    WAITING = "waiting"
    APPLIED = "applied"
    REFUSED = "refused"


_COLUMNS: Final[Columns[RequestRow]] = {
    "REQUEST": lambda row: row.id,
    "AT": lambda row: row.created_at,
    "BY": lambda row: row.requested_by,
    "VERB": lambda row: row.verb,
    "DAG": lambda row: row.dag_id,
    "STATE": lambda row: row.state,
    "ERROR": lambda row: _error(row),
}


@app.command("list")
def list_(
    dag: Annotated[str | None, typer.Option("--dag", "-d", metavar="DAG", help="Only requests about this DAG.")] = None,
    verb: Annotated[str | None, typer.Option("--verb", metavar="VERB", help="Only this verb, such as trigger.")] = None,
    state: Annotated[State | None, typer.Option("--state", help="Only requests in this state.")] = None,
    limit: Limit = 25,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """List requests, newest first."""
    from aiosched.db.queries.request_queries import list_requests

    rows = with_database(dsn, lambda db: list_requests(db, dag_id=dag, verb=verb, state=state, limit=limit))
    show_list(rows, _COLUMNS, output, empty="no requests")


@app.command()
def show(number: Number, dsn: Dsn = None, output: Output = None) -> None:
    """Show a request and its outcome."""
    from aiosched.db.queries.request_queries import get_request

    row = with_database(dsn, lambda db: get_request(db, number))
    show_one(_fields(row), output, data=row)


@app.command()
def withdraw(number: Number, reason: Reason = None, dsn: Dsn = None, output: Output = None) -> None:
    """Withdraw a request that still waits, so that no scheduler applies it."""
    from aiosched.db.statements.inbox import withdraw_request

    async def work(db: Database) -> None:
        async with db.acquire() as conn:
            await withdraw_request(conn, number, by=requester(), reason=reason)

    with_database(dsn, work)
    talk(f"withdrew request {number}")
    report({"id": number, "withdrawn": True}, output)


def _fields(row: RequestRow) -> dict[str, Any]:
    return {
        "request": row.id,
        "verb": row.verb,
        "dag": row.dag_id,
        "state": row.state,
        "error": _error(row),
        "requested by": row.requested_by,
        "reason": row.reason,
        "created": row.created_at,
        "answered": row.applied_at,
        "attempts": row.attempts,
        "arguments": row.args,
        "result": None if row.state == "refused" else row.result,
    }


def _error(row: RequestRow) -> str | None:
    return str((row.result or {}).get("error")) if row.state == "refused" else None
