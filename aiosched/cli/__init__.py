"""The command line: `aiosched …`.

    app.py       the root command and where each command lives
    lazy.py      a command group that imports a command only when it is run; errors become exit codes
    streams.py   what a process has from whoever started it
    base/        options, output, and from settings to an open database
    dags/, operation/, people/, serve/   one module for each noun

`aiosched --help` must stay fast: no module here imports SQLAlchemy, asyncpg or pydantic at module level; the commands
that need them import them when they run.

Source: docs/operations.md, "The command line".
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import NoReturn

from aiosched.cli.streams import make_usable

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line `argv` (default: this process's arguments) and exit with its code."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C during the imports ends it without a traceback
    make_usable()
    from aiosched.cli.app import app, run

    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, before)
    run(app, argv)
