"""Hooks for HTTP, SQLite, SMTP and folders, for where the provider packages with these hooks are not installed.

They have the methods that are called most. For everything else install the package, whose class then answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from aiosched.airflow.utils.email import send_email
from aiosched.authoring.runtime.hooks import BaseHook
from aiosched.authoring.runtime.http import HttpCall, checked


class DbApiHook(BaseHook):
    """Base of hooks for databases with a driver of PEP 249: subclasses implement `get_conn`."""

    conn_name_attr = "conn_id"
    placeholder = "%s"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        given = args[0] if args else kwargs.pop(self.conn_name_attr, getattr(self, "default_conn_name", None))
        setattr(self, self.conn_name_attr, given)

    @property
    def conn_id(self) -> str:
        """The id of the connection."""
        return str(vars(self)[self.conn_name_attr])

    def get_records(self, sql: str | Sequence[str], parameters: Any = None) -> list[Any]:
        """The rows of the last statement."""
        return list(self.run(sql, parameters=parameters, handler=lambda cursor: cursor.fetchall()) or ())

    def get_first(self, sql: str | Sequence[str], parameters: Any = None) -> Any:
        """The first row, or None."""
        return self.run(sql, parameters=parameters, handler=lambda cursor: cursor.fetchone())

    def run(
        self, sql: str | Sequence[str], autocommit: bool = False, parameters: Any = None, handler: Any = None
    ) -> Any:
        """Execute statements in one transaction; what `handler` makes of the last one's cursor, or None."""
        found = None
        with self._connected() as connection:
            for statement in [sql] if isinstance(sql, str) else sql:
                with contextlib.closing(connection.cursor()) as cursor:
                    self.log.info("running: %s", statement)
                    cursor.execute(statement, *([] if parameters is None else [parameters]))
                    found = handler(cursor) if handler is not None else None
            connection.commit()
        return found

    def insert_rows(
        self, table: str, rows: Iterable[Sequence[Any]], target_fields: Sequence[str] | None = None, **_: Any
    ) -> None:
        """Insert rows in one transaction. Names of tables and columns go into the statement as they are."""
        columns = f" ({', '.join(target_fields)})" if target_fields else ""
        with self._connected() as connection, contextlib.closing(connection.cursor()) as cursor:
            for row in rows:
                places = ", ".join([self.placeholder] * len(row))
                cursor.execute(f"INSERT INTO {table}{columns} VALUES ({places})", tuple(row))  # noqa: S608
            connection.commit()

    def test_connection(self) -> tuple[bool, str]:
        """Whether a statement can be executed."""
        try:
            self.get_first("SELECT 1")
        except Exception as error:
            return False, str(error)
        return True, "a statement was executed"

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Any]:
        with contextlib.closing(self.get_conn()) as connection:
            yield connection


class SqliteHook(DbApiHook):
    """A SQLite database: the file is the host of the connection; without a host it is in memory."""

    conn_name_attr = "sqlite_conn_id"
    default_conn_name = "sqlite_default"
    conn_type = "sqlite"
    hook_name = "Sqlite"
    placeholder = "?"

    def get_conn(self) -> sqlite3.Connection:
        """A new connection of the standard library's driver."""
        return sqlite3.connect(self.get_connection(self.conn_id).host or ":memory:")


class HttpHook(BaseHook):
    """Requests to the host of a connection. Responses are those of httpx2."""

    conn_name_attr = "http_conn_id"
    default_conn_name = "http_default"
    conn_type = "http"
    hook_name = "HTTP"

    def __init__(self, method: str = "POST", http_conn_id: str = default_conn_name, **_: Any) -> None:
        super().__init__()
        self.method: str = method
        self.http_conn_id: str = http_conn_id

    def run(
        self,
        endpoint: str | None = None,
        data: Any = None,
        headers: Mapping[str, Any] | None = None,
        extra_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        """The response. Raises CommandFailed for a status of 400 or above, unless check_response is false."""
        given = {**(extra_options or {}), **options}
        check = given.pop("check_response", True)
        call = HttpCall(
            method=self.method,
            endpoint=endpoint or "",
            http_conn_id=self.http_conn_id,
            data=data,
            headers=dict(headers or {}),
            options=given,
        )
        response = asyncio.run(call.send())
        return checked(response) if check else response


class SmtpHook(BaseHook):
    """Mails by the server of a connection: `with SmtpHook() as smtp: smtp.send_email_smtp(to=…, subject=…)`."""

    conn_name_attr = "smtp_conn_id"
    default_conn_name = "smtp_default"
    conn_type = "smtp"
    hook_name = "SMTP"

    def __init__(self, smtp_conn_id: str = default_conn_name, **_: Any) -> None:
        super().__init__()
        self.smtp_conn_id = smtp_conn_id

    def __enter__(self) -> SmtpHook:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def send_email_smtp(
        self, *, to: str | Iterable[str], subject: str | None = None, html_content: str | None = None, **options: Any
    ) -> None:
        """Send a mail."""
        send_email(to, subject or "", html_content or "", conn_id=self.smtp_conn_id, **options)


class FSHook(BaseHook):
    """A folder of this machine: the `path` in the extra of a connection, by default `/`."""

    conn_name_attr = "fs_conn_id"
    default_conn_name = "fs_default"
    conn_type = "fs"
    hook_name = "File (path)"

    def __init__(self, fs_conn_id: str = default_conn_name, conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.conn_id: str = conn_id or fs_conn_id
        self.basepath: str = self.get_connection(self.conn_id).extra_dejson.get("path", "")

    def get_conn(self) -> None:
        """There is nothing to connect to."""

    def get_path(self) -> str:
        """The folder."""
        return self.basepath
