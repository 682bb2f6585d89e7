"""What people type: `aiosched …`.

    app.py      the root command and where each command lives; errors become exit codes
    lazy.py     a command group that imports a command only when it is called
    output.py   tables, JSON, YAML and plain lines on stdout; talk on stderr
    options.py  options that several commands share
    session.py  from settings to an open database
    serve.py, init.py, version.py, doctor.py                          commands of their own
    dags.py, dag_files.py, runs.py, tasks.py, pools.py, …             one module a noun

`aiosched --help` must stay fast: nothing here imports SQLAlchemy, asyncpg or pydantic at module
level, but inside the commands that need them.

Source: docs/operations.md, "The command line".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line `argv` (default: this process's arguments) and exit with its code."""
    from aiosched.cli.app import app, run

    run(app, argv)
