"""`aiosched pools`: list, get, set, delete, import and export."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand

from aiosched.cli.base.options import Dsn, Output, UsageProblem, Yes, confirm
from aiosched.cli.base.output import Columns, counted, report, show_list, show_one, talk
from aiosched.cli.base.session import requester, with_database
from aiosched.cli.operation.secret_files import (
    Overwrite,
    SourceFile,
    TargetFile,
    read_document,
    report_imported,
    write_document,
)

if TYPE_CHECKING:
    from aiosched.db.people.pools import Pool, PoolChange
    from aiosched.db.people.secrets import Change
    from aiosched.db.server.engine import Database

app: typer.Typer = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, add_completion=False, help="Pools and their slots."
)


class _NegativeSlots(TyperCommand):
    """A command that takes -1 for SLOTS, not for an option: with a space before it, it is no option, and the same
    number."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        numbers = [f" {arg}" if _NEGATIVE.fullmatch(arg) else arg for arg in args[:end]]
        return super().parse_args(ctx, [*numbers, *args[end:]])


Name = Annotated[str, typer.Argument(metavar="POOL", help="The pool's name.", show_default=False)]

_NEGATIVE: Final = re.compile(r"-\d+")
_COLUMNS: Final[Columns[Pool]] = {
    "POOL": lambda pool: pool.name,
    "SLOTS": lambda pool: _slots(pool.slots),
    "USED": lambda pool: pool.used,
    "OPEN": lambda pool: _slots(-1) if pool.open is None else pool.open,
    "RATE": lambda pool: pool.rate,
    "DEFERRED COUNT": lambda pool: pool.include_deferred,
    "DESCRIPTION": lambda pool: pool.description,
    "TEAM": lambda pool: pool.team,
}

_FIELDS: Final = {"slots": int, "description": str, "include_deferred": bool, "rate": str, "team": str}  # of a file


@app.command("list")
def list_(dsn: Dsn = None, output: Output = None) -> None:
    """List pools with their slots."""
    from aiosched.db.people.pools import list_pools

    show_list(with_database(dsn, list_pools), _COLUMNS, output, empty="no pools")


@app.command()
def get(name: Name, dsn: Dsn = None, output: Output = None) -> None:
    """Show one pool."""
    from aiosched.db.people.pools import get_pool

    pool = with_database(dsn, lambda db: get_pool(db, name))
    show_one(_fields(pool), output, data=pool)


@app.command("set", cls=_NegativeSlots)
def set_(
    name: Name,
    slots: Annotated[int, typer.Argument(min=-1, metavar="SLOTS", help="-1 is infinite, 0 lets nothing run.")],
    description: Annotated[
        str | None,
        typer.Argument(metavar="DESCRIPTION", help="The purpose of the pool.", show_default=False),
    ] = None,
    include_deferred: Annotated[
        bool | None,
        typer.Option("--include-deferred/--no-include-deferred", help="Deferred tasks keep their slots."),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option("--rate", metavar="N/PERIOD", help="Most starts, as 100/min; '' for any.", show_default=False),
    ] = None,
    team: Annotated[
        str | None,
        typer.Option("--team", metavar="NAME", help="Whose DAGs may use it; '' for all.", show_default=False),
    ] = None,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Create or change a pool; idempotent."""
    from aiosched.db.people.pools import set_pool

    async def change(db: Database) -> PoolChange:
        return await set_pool(
            db,
            name,
            slots,
            include_deferred=include_deferred,
            description=description,
            team=team,
            rate=rate,
            requested_by=requester(),
        )

    done = with_database(dsn, change)
    talk(_summary(done))
    show_one(_fields(done.after), output, data={"before": done.before, "after": done.after, "changed": done.changed})


@app.command()
def delete(name: Name, yes: Yes = False, dsn: Dsn = None, output: Output = None) -> None:
    """Delete a pool that no task uses."""
    from aiosched.db.people.pools import delete_pool

    confirm(f"Delete pool {name}?", yes=yes)
    with_database(dsn, lambda db: delete_pool(db, name, requested_by=requester()))
    talk(f"deleted pool {name}")
    report({"pool": name, "deleted": True}, output)


@app.command("import")
def import_(file: SourceFile, dsn: Dsn = None, output: Output = None) -> None:
    """Create and change the pools of a file: {"name": {"slots": 4, "description": text, "include_deferred": false}}.

    A pool that is not in the file stays as it is.
    """
    from aiosched.db.people.pools import set_pool

    document = read_document(file)
    for name, one in document.items():
        _check_fields(file, name, one)

    async def change(db: Database) -> dict[str, Change]:
        changes = {name: await set_pool(db, name, **one, requested_by=requester()) for name, one in document.items()}
        return {name: _result(change) for name, change in changes.items()}

    report_imported(file, with_database(dsn, change), "pool", output)


@app.command()
def export(
    file: TargetFile,
    overwrite: Overwrite = False,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Write all pools to a file that `import` reads."""
    from aiosched.db.people.pools import list_pools

    found = with_database(dsn, list_pools)
    document = {pool.name: {name: getattr(pool, name) for name in _FIELDS if _is_set(pool, name)} for pool in found}
    write_document(file, document, "pool", output, overwrite=overwrite)


def _is_set(pool: Pool, field: str) -> bool:
    return field == "description" or getattr(pool, field) is not None  # which Airflow's import wants


def _check_fields(file: Path, name: str, one: Any) -> None:
    """Raise UsageProblem for what is no pool."""
    if not isinstance(one, dict) or type(one.get("slots")) is not int:
        raise UsageProblem(f'{file}: pool {name} must be an object such as {{"slots": 4, "description": "…"}}.')
    for field, value in one.items():
        if field not in _FIELDS:
            raise UsageProblem(f"{file}: pool {name} has no {field!r}; it has {', '.join(_FIELDS)}.")
        if value is not None and not isinstance(value, _FIELDS[field]):
            raise UsageProblem(f"{file}: {field} of pool {name} must not be {value!r}.")


def _result(change: PoolChange) -> Change:
    from aiosched.db.people.secrets import Change

    return Change.CREATED if change.before is None else Change.CHANGED if change.changed else Change.UNCHANGED


def _fields(pool: Pool) -> Mapping[str, Any]:
    return {title.lower(): read(pool) for title, read in _COLUMNS.items()}


def _summary(change: PoolChange) -> str:
    after = change.after
    if change.before is None:
        return f"created pool {after.name} with {_counted(after.slots)}"
    if not change.changed:
        return f"pool {after.name} is so already: {_counted(after.slots)}"
    changes = [
        f"{title} {before or 'none'} -> {now or 'none'}"
        for title, before, now in (
            ("slots", _slots(change.before.slots), _slots(after.slots)),
            ("rate", change.before.rate, after.rate),
            ("include_deferred", str(change.before.include_deferred), str(after.include_deferred)),
            ("description", change.before.description, after.description),
        )
        if before != now
    ]
    return f"changed pool {after.name}: {', '.join(changes)}"


def _slots(number: int) -> str:
    return "infinite" if number == -1 else str(number)


def _counted(slots: int) -> str:
    return "infinite slots" if slots == -1 else counted(slots, "slot")
