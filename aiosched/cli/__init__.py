"""The command line: `aiosched …`.

    app.py      the root command and where each command lives; errors become exit codes
    lazy.py     a command group that imports a command only when it is run
    output.py   tables, JSON, YAML and plain lines on stdout; messages on stderr
    options.py  options that several commands share
    session.py  from settings to an open database

`aiosched --help` must stay fast: no module here imports SQLAlchemy, asyncpg or pydantic at module level; the commands
that need them import them when they run.

Source: docs/operations.md, "The command line".
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import NoReturn

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line `argv` (default: this process's arguments) and exit with its code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a shell's `trap "" CHLD`: the ends of processes would be lost
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C during the imports ends it without a traceback
    from aiosched.cli.app import app, run

    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, before)
    run(app, argv)
