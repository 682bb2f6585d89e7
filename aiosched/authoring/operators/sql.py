"""Tasks that run SQL, on any database of SQLAlchemy, with an async driver or in a thread."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import quote

from aiosched.authoring.base.plain_callers import for_plain_callers
from aiosched.authoring.runtime.connections import Connection
from aiosched.authoring.tasks.operator import BaseOperator
from aiosched.errors import AioschedError

if TYPE_CHECKING:
    import sqlalchemy
    from sqlalchemy.ext.asyncio import AsyncEngine

    from aiosched.authoring.runtime.context import Context

_ASYNC_DRIVERS: Final = ("asyncpg", "aiosqlite", "asyncmy", "aiomysql", "aioodbc", "psycopg_async", "oracledb_async")
_DIALECTS: Final = {"postgres": "postgresql"}  # by connection type, where they differ
_DRIVERS: Final = {"postgres": "asyncpg"}  # those that are always installed


def fetch_all_handler(result: sqlalchemy.CursorResult[Any]) -> list[list[Any]] | None:
    """All rows, as lists; None for a statement that returns none."""
    return [list(row) for row in result.fetchall()] if result.returns_rows else None


def fetch_one_handler(result: sqlalchemy.CursorResult[Any]) -> list[Any] | None:
    """The first row, as a list; None when there is none."""
    row = result.fetchone() if result.returns_rows else None
    return None if row is None else list(row)


class SQLExecuteQueryOperator(BaseOperator):
    """Runs `sql`, one statement or several, and pushes what `handler(result)` returns.

    `conn_id` is the id of a connection, or a whole SQLAlchemy URL; `database` replaces the connection's. All statements
    are one transaction, unless `autocommit`. A text is split at its semicolons unless `split_statements=False`. A dict
    of `parameters` fills `:name`, a list the driver's own placeholders. With several statements the last result is
    pushed, or all of them with `return_last=False`. `handler` gets SQLAlchemy's result; None pushes nothing.
    """

    template_fields: ClassVar[Sequence[str]] = ("conn_id", "sql", "parameters", "database")
    template_ext: ClassVar[Sequence[str]] = (".sql",)
    template_fields_renderers: ClassVar[Mapping[str, str]] = {"sql": "sql", "parameters": "json"}
    ui_color = "#cdaaed"

    def __init__(
        self,
        *,
        sql: str | Sequence[str] | Any,
        conn_id: str | Any,
        database: str | None = None,
        autocommit: bool = False,
        parameters: Mapping[str, Any] | Sequence[Any] | Any | None = None,
        handler: Callable[[Any], Any] | None = fetch_all_handler,
        split_statements: bool = True,
        return_last: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.sql = sql
        self.conn_id = conn_id
        self.database = database
        self.autocommit = autocommit
        self.parameters = parameters
        self.handler = handler
        self.split_statements = split_statements
        self.return_last = return_last

    @for_plain_callers
    async def execute(self, context: Context) -> Any:
        """Run the statements in order; the first error ends it."""
        statements = self.statements()
        url = await self._url()
        driver = url.partition("://")[0].partition("+")[2]
        results = await (self._run_async(url, statements) if driver in _ASYNC_DRIVERS else self._run(url, statements))
        if self.handler is None:
            return None
        return results[-1] if self.return_last or len(results) == 1 else results

    def statements(self) -> list[str]:
        """The statements one by one; raises AioschedError when there is none."""
        texts = [self.sql] if isinstance(self.sql, str) else list(self.sql)
        found = [part for text in texts for part in (split_sql(text) if self.split_statements else [text.strip()])]
        if not any(found):
            raise AioschedError(f"Task {self.task_id!r} has no SQL statement to run: give sql=….")
        return found

    async def _run_async(self, url: str, statements: Sequence[str]) -> list[Any]:
        from sqlalchemy.ext.asyncio import create_async_engine
        from sqlalchemy.pool import NullPool

        engine: AsyncEngine = create_async_engine(url, poolclass=NullPool)
        try:
            async with engine.connect() as conn:
                return await conn.run_sync(self._work, statements)
        finally:
            await engine.dispose()

    async def _run(self, url: str, statements: Sequence[str]) -> list[Any]:
        return await asyncio.to_thread(self._run_plain, url, statements)

    def _run_plain(self, url: str, statements: Sequence[str]) -> list[Any]:
        from sqlalchemy import create_engine
        from sqlalchemy.pool import NullPool

        engine = create_engine(url, poolclass=NullPool)
        try:
            with engine.connect() as conn:
                return self._work(conn, statements)
        finally:
            engine.dispose()

    def _work(self, conn: sqlalchemy.Connection, statements: Sequence[str]) -> list[Any]:
        if self.autocommit:
            conn = conn.execution_options(isolation_level="AUTOCOMMIT")
        results = []
        for statement in statements:
            self.log.info("running: %s", statement)
            result = self._one(conn, statement)
            results.append(None if self.handler is None else self.handler(result))
            result.close()
        conn.commit()
        return results

    def _one(self, conn: sqlalchemy.Connection, statement: str) -> sqlalchemy.CursorResult[Any]:
        from sqlalchemy import text

        if not self.parameters:
            return conn.exec_driver_sql(statement)
        if isinstance(self.parameters, Mapping):
            return conn.execute(text(statement), dict(self.parameters))
        return conn.exec_driver_sql(statement, tuple(self.parameters))

    async def _url(self) -> str:
        if "://" in self.conn_id:
            return str(self.conn_id)
        return url_of(await Connection.aget(self.conn_id), self.database)


def url_of(connection: Any, database: str | None = None) -> str:
    """The SQLAlchemy URL of a connection; `database` replaces its schema. An extra `driver` names the driver."""
    kind = connection.conn_type
    driver = connection.extra_dejson.get("driver") or _DRIVERS.get(kind)
    dialect = _DIALECTS.get(kind, kind) + (f"+{driver}" if driver else "")
    if kind == "sqlite":
        return f"{dialect}:///{database or connection.host or connection.schema or ''}"
    login = ""
    if connection.login is not None or connection.password is not None:
        password = "" if connection.password is None else f":{quote(connection.password, safe='')}"
        login = f"{quote(connection.login or '', safe='')}{password}@"
    port = f":{connection.port}" if connection.port else ""
    return f"{dialect}://{login}{connection.host or ''}{port}/{quote(database or connection.schema or '', safe='')}"


# Quoted text and comments, in which a semicolon does not end the statement; else one character.
_PIECE: Final = re.compile(
    r"""
      '(?:[^']|'')*'                 # a string
    | "(?:[^"]|"")*"                 # a name
    | `[^`]*`                        # a name of MySQL
    | (?P<tag>\$(?:[A-Za-z_]\w*)?\$).*?(?P=tag)
    | (?P<line>--[^\n]*)
    | (?P<block>/\*.*?\*/)
    | .
    """,
    re.VERBOSE | re.DOTALL,
)


def split_sql(text: str) -> list[str]:
    """The statements of `text` without their semicolons, in order, without those that are empty or only comments."""
    statements: list[str] = []
    begin, has_code = 0, False
    for piece in _PIECE.finditer(text):
        found = piece[0]
        if found == ";":
            if has_code:
                statements.append(text[begin : piece.start()].strip())
            begin, has_code = piece.end(), False
        elif not found.isspace() and not piece["line"] and not piece["block"]:
            has_code = True
    if has_code:
        statements.append(text[begin:].strip())
    return statements
