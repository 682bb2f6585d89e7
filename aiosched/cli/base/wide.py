"""`--wide`, which every command with `--output` has: tables show all of each cell, and instants as they are.

It is not a parameter of each command's function: it concerns only how tables are written (output.py).
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from aiosched.cli.base.output import set_wide


def _set(wide: bool) -> bool:
    set_wide(wide)
    return wide


def _command(
    wide: Annotated[
        bool,
        typer.Option(
            "--wide", callback=_set, expose_value=False, help="Cut nothing off in tables; instants instead of ages."
        ),
    ] = False,
) -> None:
    """Carries the option."""


def wide_option() -> Any:
    """The option, to be added to the parameters of a command."""
    carrier = typer.Typer(add_completion=False)
    carrier.command()(_command)
    return next(param for param in typer.main.get_command(carrier).params if param.name == "wide")
