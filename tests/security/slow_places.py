"""Entrances of slow_inputs.py behind which there is more than a function: headers of requests, and PostgreSQL."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

import asyncpg
from starlette.datastructures import MutableHeaders

from aiosched.config import Settings
from aiosched.config.sections import WebSettings
from aiosched.core.values.matching import words_of
from aiosched.db.finding import names
from aiosched.db.lists import facets
from aiosched.db.queries.queries import like
from aiosched.db.server.engine import Database
from aiosched.web.api.logs import _part
from aiosched.web.app import make_app
from aiosched.web.requests.request_client import RequestClient
from aiosched.web.server import etags
from aiosched.web.server.host_names import name_of

DSN: Final = "AIOSCHED_SLOW_DSN"  # the variable with the address of a database for what runs there
HEADERS: Final[Mapping[str, tuple[str, ...]]] = {  # what means something in a header, by its name
    "accept": ("text/html", ",", ";q=0.1", "*/*", "/", " ", "a"),
    "accept-encoding": ("gzip", ",", ";q=0", "*", " ", "br"),
    "authorization": ("Bearer", "Basic", " ", "a", ".", "=", ":", "aio_", "\t"),
    "content-length": ("9", "1", "0", "-", "\xb2"),
    "content-type": ("application/json", "multipart/form-data", ";", "boundary=", "a", '"', "\\", " ", "charset=", "="),
    "cookie": ("aiosched_session", "=", ";", " ", ",", '"', "\\", "\\101", "a", "aiosched_device=", "__Host-"),
    "host": ("localhost", ":", "[", "]", "1", ".", "@", "::", "/"),
    "if-match": ("*", '"', "W/", ",", "a", " "),
    "if-none-match": ("*", '"', "W/", ",", "a", " "),
    "last-event-id": ("1", "-", ":", "a"),
    "origin": ("http://", "[", "]", "localhost", ":", "@", "/", "null", "#", "?"),
    "range": ("bytes=", "0-", "1", ",", "-", " "),
    "sec-fetch-site": ("same-origin", "none", "cross-site", ","),
    "user-agent": ("Mozilla", "(", ")", "/", " ", "\x01", "\xe9"),
    "x-forwarded-for": ("1.2.3.4", ",", " ", "::1", "a", "%"),
    "x-forwarded-proto": ("https", ",", " "),
}
PLACES: Final = (
    ("GET", "/livez"), ("GET", "/"), ("GET", "/api/v1/dags"), ("GET", "/ui/app.js"), ("GET", "/api/v2/dags"),
    ("GET", "/metrics"), ("POST", "/api/v1/login"), ("POST", "/worker/v1/starts"),
)  # fmt: skip


@functools.lru_cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


@functools.lru_cache
def _app() -> Any:
    """A web server with logins, whose database cannot be reached."""
    web = WebSettings(auth="password", admin_password="long enough")

    async def made() -> Any:
        nowhere = "postgresql://nobody@127.0.0.1:9/none"
        db = await contextlib.AsyncExitStack().enter_async_context(
            await Database.open(nowhere, application_name="slow inputs", at_once=False)
        )
        return make_app(RequestClient(db, Settings(web=web)))

    return _loop().run_until_complete(made())


def status_of(method: str, path: str, headers: Mapping[str, bytes]) -> int:
    """The status with which the server answers; 0 if it does not. Raises what the server does not catch."""
    statuses: list[int] = []

    asked = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> dict[str, Any]:
        if (message := next(asked, None)) is None:
            await asyncio.Event().wait()  # the client stays
            raise AssertionError
        return message

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    found = {"host": b"localhost", **headers}
    scope = {
        "type": "http", "http_version": "1.1", "method": method, "scheme": "http", "path": path, "root_path": "",
        "raw_path": path.encode(), "query_string": b"", "client": ("127.0.0.1", 1), "server": ("localhost", 80),
        "headers": [(name.encode(), value) for name, value in found.items()], "state": {},
    }  # fmt: skip
    _loop().run_until_complete(_app()(scope, receive, send))
    return statuses[0] if statuses else 0


def header(name: str) -> Callable[[str], None]:
    """What a text in a header reaches."""

    def call(text: str) -> None:
        for method, path in PLACES:
            status_of(method, path, {name: text.encode("latin-1", "replace")})
        if name == "if-none-match":
            start = {"type": "http.response.start", "status": 200, "headers": []}
            MutableHeaders(scope=start)
            etags._tag(start, {"body": b"x"}, text)
        elif name == "range":
            _part(10_000, None, None, None, text)
        elif name == "host":
            name_of(text)

    return call


@functools.lru_cache
def _connection() -> asyncpg.Connection[Any]:
    return _loop().run_until_complete(asyncpg.connect(os.environ[DSN]))


def in_database(statement: str, *given: object) -> object:
    """The first value of a statement."""
    return _loop().run_until_complete(_connection().fetchval(statement, *given))


_ROWS: Final = 20
_LONG: Final = "'ab1_' || g || repeat('ab-1', 60)"  # a text of each row


def glob_of_rows(text: str) -> None:
    """A pattern of people, compared with names of rows."""
    statement = f"SELECT count(*) FROM generate_series(1, {_ROWS}) AS g WHERE {_LONG} {{}} $1 ESCAPE '\\'"
    for how in ("LIKE", "ILIKE"):
        in_database(statement.format(how), like(f"*{text}*"))


def words_in_rows(text: str) -> None:
    """What people search for, as patterns for names."""
    words = words_of(text)
    patterns = [names._letters(words[0])] if len(words) == 1 else names._parts(words)
    statement = (
        f'SELECT count(*) FROM generate_series(1, {_ROWS}) AS g WHERE lower({_LONG} COLLATE "C") LIKE ALL ($1::text[])'
    )
    in_database(statement, patterns)


def text_of_rows(text: str) -> None:
    """A text of tasks, in what the database does with texts: search, and putting errors together."""
    in_database("SELECT $1::text ILIKE $2 ESCAPE '\\'", text, "%a%b%_c%d%")
    in_database(
        f"SELECT regexp_replace(left($1::text, {facets._COMPARED}), '{facets._VARIABLE}', '#', 'gi')",
        text,
    )


def values_of_rows(text: str) -> None:
    """JSON of tasks, in conditions of statements."""
    in_database("SELECT CASE WHEN $1::json ->> 'size' ~ '^[0-9]{1,15}$' THEN 1 ELSE -1 END", text)


def long_lists(text: str) -> None:
    """Many values of a filter."""
    given = text.split(",")
    in_database("SELECT count(*) FROM generate_series(1, 20) AS g WHERE g::text = ANY ($1::text[])", given)
    in_database("SELECT count(DISTINCT x) FROM unnest($1::text[]) AS x", given)
