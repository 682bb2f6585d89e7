"""`aiosched assets`: list, events, checks and emit."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from aiosched.cli.base.options import Dsn, Limit, Output
from aiosched.cli.base.output import Columns, RunId, show_list, show_one, talk
from aiosched.cli.base.request_options import with_options
from aiosched.cli.base.session import ask, say_it_waits, with_database
from aiosched.core.assets.freshness import Freshness
from aiosched.core.requests.requests import EmitAsset
from aiosched.core.values.typed_json import readable
from aiosched.errors import NotFound, did_you_mean

if TYPE_CHECKING:
    from aiosched.db.queries.asset_queries import AssetRow, EventRow
    from aiosched.db.queries.check_queries import CheckRow
    from aiosched.db.server.engine import Database

app: typer.Typer = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, add_completion=False, help="Assets and their events."
)

Name = Annotated[str, typer.Argument(metavar="ASSET", help="The asset's name.", show_default=False)]

_COLUMNS: Final[Columns[AssetRow]] = {
    "ASSET": lambda asset: asset.name,
    "URI": lambda asset: asset.uri,
    "ACTIVE": lambda asset: asset.is_active,
    "PRODUCED BY": lambda asset: ", ".join(asset.producers),
    "CONSUMED BY": lambda asset: ", ".join(asset.consumers),
    "LAST EVENT": lambda asset: asset.last_event_at,
    "FRESHNESS": lambda asset: str(asset.freshness),
    "EXPECTED BY": lambda asset: asset.expected_by,
    "CHECK": lambda asset: asset.check and str(asset.check),
}

_CHECK_COLUMNS: Final[Columns[CheckRow]] = {
    "DAG": lambda check: check.dag_id,
    "TASK": lambda check: check.task_id,
    "BLOCKING": lambda check: check.is_blocking,
    "STATUS": lambda check: check.last and str(check.last.status),
    "AT": lambda check: check.last and check.last.checked_at,
    "RUN": lambda check: check.last and RunId(check.last.run_id),
    "MESSAGE": lambda check: check.last and check.last.message,
    "METADATA": lambda check: check.last and json.dumps(readable(check.last.metadata)),
}

_EVENT_COLUMNS: Final[Columns[EventRow]] = {
    "AT": lambda event: event.timestamp,
    "DAG": lambda event: event.dag_id,
    "RUN": lambda event: RunId(event.run_id) if event.run_id else None,
    "TASK": lambda event: event.task_id,
    "PARTITION": lambda event: event.partition_key,
    "EXTRA": lambda event: json.dumps(readable(event.extra)),
}


@app.command("list")
def list_(
    freshness: Annotated[
        Freshness | None, typer.Option("--freshness", help="Only assets that are fresh, late or unknown.")
    ] = None,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """List assets, their producers and consumers, and whether they are as new as they should be."""
    from aiosched.clock import SystemClock
    from aiosched.db.queries.asset_queries import list_assets

    rows = with_database(dsn, lambda db: list_assets(db, now=SystemClock().now()))
    shown = [row for row in rows if freshness is None or row.freshness is freshness]
    show_list(shown, _COLUMNS, output, empty=f"no {freshness} assets" if rows and freshness else "no assets yet")


@app.command()
def events(name: Name, limit: Limit = 25, dsn: Dsn = None, output: Output = None) -> None:
    """List the newest events of an asset, oldest first."""
    from aiosched.db.assets.assets import asset_states
    from aiosched.db.queries.asset_queries import events_of

    async def read(db: Database) -> list[EventRow]:
        async with db.acquire() as conn:
            known = await asset_states(conn)
            if name not in known:
                raise NotFound(f"There is no asset {name!r}.{did_you_mean(name, known)} See `aiosched assets list`.")
            return await events_of(conn, name=name, limit=limit)

    show_list(with_database(dsn, read), _EVENT_COLUMNS, output, empty="no events yet")


@app.command()
def checks(name: Name, dsn: Dsn = None, output: Output = None) -> None:
    """List the checks of an asset, and what they said last: pass, warn or fail."""
    from aiosched.clock import SystemClock
    from aiosched.db.queries.asset_queries import get_asset
    from aiosched.db.queries.check_queries import checks_of

    async def read(db: Database) -> list[CheckRow]:
        await get_asset(db, name, now=SystemClock().now())
        async with db.acquire() as conn:
            return await checks_of(conn, name)

    show_list(with_database(dsn, read), _CHECK_COLUMNS, output, empty="no checks of this asset")


@app.command()
@with_options(EmitAsset, without=("name", "extra"))
def emit(
    name: Name,
    extra: Annotated[
        str | None,
        typer.Option("--extra", metavar="JSON", help="A JSON object, stored with the event.", show_default=False),
    ] = None,
    *,
    request: Callable[..., EmitAsset],
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Emit an event, which triggers the waiting DAGs as if a task had emitted it."""
    event = request(name=name, extra=_object(extra))
    answer = with_database(dsn, lambda db: ask(db, event, None))
    if answer is None:
        say_it_waits(f"The event of {name}", output)
    else:
        talk(f"emitted an event of {name}")
        fields = {"asset": name, "at": answer["at"], "extra": json.dumps(event.extra)}
        if event.partition_key is not None:
            fields["partition_key"] = event.partition_key
        show_one(fields, output, data=answer | {"extra": event.extra})


def _object(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text) if text is not None else {}
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not valid JSON ({error}).", param_hint="--extra") from None
    if not isinstance(value, dict):
        raise typer.BadParameter(f"{text!r} is not a JSON object; write {{…}}.", param_hint="--extra")
    return value
