"""Completion of ids in a shell, from the database.

It never starts a database, waits a second at most, and says nothing if it finds nothing: whoever presses Tab has typed
half a line.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import typer

from aiosched.core.values.ids import RUN_WORDS

if TYPE_CHECKING:
    from aiosched.db.server.connection import DatabaseConnection

_SECONDS: Final = 1.0


def complete_dag(ctx: typer.Context, incomplete: str) -> list[str]:
    """Ids of DAGs."""
    from aiosched.db.names.completion import dags_that_begin

    return _ask(ctx, lambda conn: dags_that_begin(conn, incomplete))


def complete_run(ctx: typer.Context, incomplete: str) -> list[str]:
    """Ids of runs of the DAG that is named before, and the words for the latest ones."""
    from aiosched.db.names.completion import runs_that_begin

    words = [word for word in RUN_WORDS if word.startswith(incomplete)]
    dag_id = _dag_of(ctx)
    return words + (_ask(ctx, lambda conn: runs_that_begin(conn, dag_id, incomplete)) if dag_id else [])


def complete_task(ctx: typer.Context, incomplete: str) -> list[str]:
    """Ids of tasks of the DAG that is named before."""
    from aiosched.db.names.completion import tasks_that_begin

    dag_id = _dag_of(ctx)
    return _ask(ctx, lambda conn: tasks_that_begin(conn, dag_id, incomplete)) if dag_id else []


def _dag_of(ctx: typer.Context) -> str | None:
    return ctx.params.get("dag_id") or ctx.params.get("dag")


def _ask(ctx: typer.Context, question: Callable[[DatabaseConnection], Awaitable[list[str]]]) -> list[str]:
    """The answer of the database; nothing if there is none in time."""

    async def read(dsn: str) -> list[str]:
        import asyncpg

        async with asyncio.timeout(_SECONDS):
            conn: Any = await asyncpg.connect(dsn)
            try:
                return await question(conn)
            finally:
                conn.terminate()

    with contextlib.suppress(Exception), contextlib.redirect_stderr(io.StringIO()):
        dsn = _address(ctx.params.get("dsn"))
        return [] if dsn is None else asyncio.run(read(dsn))
    return []


def _address(dsn: str | None) -> str | None:
    """The address of the database; None if it is an embedded one that does not run."""
    from aiosched.cli.base.session import load
    from aiosched.db.server.embedded import embedded_dsn
    from aiosched.db.server.password_file import with_present_password

    settings = load(database__dsn=dsn).settings
    if settings.database.dsn is None:
        return embedded_dsn(settings.core.home)
    return with_present_password(settings.database.dsn, settings.database.password_file)
