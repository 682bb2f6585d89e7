"""`aiosched connections`: list, get, add, set, test, delete, import and export.

Passwords and secret extras are shown only with `--reveal`. Options are accepted with Airflow's prefix, too:
`--conn-uri` is `--uri`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from json import dumps as json_text
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from aiosched.cli.base.options import Dsn, Output, UsageProblem, Yes, confirm, read_json
from aiosched.cli.base.output import Columns, Format, report, show_list, show_one, talk
from aiosched.cli.base.session import requester
from aiosched.cli.operation.secret_files import (
    Existing,
    FileFormat,
    Overwrite,
    Reveal,
    SourceFile,
    TargetFile,
    Team,
    list_everywhere,
    read_document,
    refuse_secrets,
    report_imported,
    with_store,
    write_document,
)

if TYPE_CHECKING:
    from aiosched.core.values.connections import ConnectionValue
    from aiosched.db.people.secrets import Change, SecretStore
    from aiosched.providers import ConnectionType

app: typer.Typer = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"token_normalize_func": lambda name: name.removeprefix("conn-")},
    help="Where services are, and how to log in there.",
)

ConnId = Annotated[str, typer.Argument(metavar="ID", help="The connection's id.", show_default=False)]
Uri = Annotated[
    str | None,
    typer.Option(
        "--uri",
        metavar="URI",
        help="type://login:password@host:port/schema?extra=value; - prompts for it, or reads the standard input.",
        show_default=False,
    ),
]
JsonText = Annotated[
    str | None,
    typer.Option(
        "--json", metavar="JSON", help="All fields as a JSON object; the password may be beside it.", show_default=False
    ),
]
Type = Annotated[
    str | None,
    typer.Option(
        "--type",
        metavar="TYPE",
        help="Such as postgres; `connections types` lists those of providers.",
        show_default=False,
    ),
]
Host = Annotated[str | None, typer.Option("--host", metavar="HOST", show_default=False)]
Login = Annotated[str | None, typer.Option("--login", metavar="NAME", show_default=False)]
Password = Annotated[
    str | None,
    typer.Option(
        "--password", metavar="TEXT", help="- prompts for it, or reads the standard input.", show_default=False
    ),
]
Port = Annotated[int | None, typer.Option("--port", min=1, max=65535, show_default=False)]
Schema = Annotated[str | None, typer.Option("--schema", metavar="NAME", help="Or database.", show_default=False)]
Extra = Annotated[str | None, typer.Option("--extra", metavar="JSON", help="A JSON object.", show_default=False)]
Description = Annotated[str | None, typer.Option("--description", help="The purpose.", show_default=False)]

_COLUMNS: Final[Columns[dict[str, Any]]] = {
    "CONNECTION": lambda one: one["conn_id"],
    "TYPE": lambda one: one.get("conn_type"),
    "DESCRIPTION": lambda one: one.get("description"),
    "CHANGED": lambda one: one.get("changed_at"),
    "BY": lambda one: one.get("changed_by"),
    "TEAM": lambda one: one.get("team"),
    "FROM": lambda one: one["source"],
    "HIDDEN BY": lambda one: one["hidden_by"],
}

_TYPES: Final[Columns[ConnectionType]] = {
    "TYPE": lambda one: one.name,
    "NAME": lambda one: one.title,
    "PACKAGE": lambda one: one.package,
}


@app.command("list")
def list_(dsn: Dsn = None, output: Output = None) -> None:
    """List connections, without encrypted values: those of backends, of this environment and of the database."""
    found = list_everywhere(dsn, "connection", lambda store: store.list_connections(), "conn_id")
    show_list(found, _COLUMNS, output, empty="no connections")


@app.command()
def types(output: Output = None) -> None:
    """List the types that installed provider packages have hooks for. Other types can be stored, too."""
    from aiosched.providers import connection_types

    show_list([*connection_types().values()], _TYPES, output, empty="no provider packages with hooks are installed")


@app.command()
def get(conn_id: ConnId, reveal: Reveal = False, dsn: Dsn = None, output: Output = None) -> None:
    """Show one connection; its password and secret extras with --reveal."""

    async def read(store: SecretStore) -> ConnectionValue:
        from aiosched.core.audit.kinds import AuditKind

        if reveal:
            await store.note(AuditKind.SECRET_REVEALED, f"connection {conn_id}")
        return await store.get_connection(conn_id)

    found = with_store(dsn, read)
    shown = found if reveal else found.masked()
    if shown != found:
        talk("add --reveal to see its secrets")
    show_one(_fields(shown), output)


@app.command()
def add(
    conn_id: ConnId,
    uri: Uri = None,
    json: JsonText = None,
    type: Type = None,
    host: Host = None,
    login: Login = None,
    password: Password = None,
    port: Port = None,
    schema: Schema = None,
    extra: Extra = None,
    description: Description = None,
    team: Team = None,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Store a new connection: by --uri, by --json, or by --type and fields."""
    given = _given(type, host, login, password, port, schema, extra, description)
    _store(dsn, _described(conn_id, uri, json, given), new=True, team=team, output=output)


@app.command("set")
def set_(
    conn_id: ConnId,
    uri: Uri = None,
    json: JsonText = None,
    type: Type = None,
    host: Host = None,
    login: Login = None,
    password: Password = None,
    port: Port = None,
    schema: Schema = None,
    extra: Extra = None,
    description: Description = None,
    team: Team = None,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Create or change a connection. Fields that are not given stay unchanged; --uri and --json replace all."""
    given = _given(type, host, login, password, port, schema, extra, description)
    if uri is None and json is None:
        before = with_store(dsn, lambda store: store.get_connections([conn_id])).get(conn_id)
        given = (before.as_fields() if before is not None else {}) | given
    _store(dsn, _described(conn_id, uri, json, given), new=False, team=team, output=output)


@app.command()
def delete(conn_id: ConnId, yes: Yes = False, dsn: Dsn = None, output: Output = None) -> None:
    """Delete a connection."""
    confirm(f"Delete connection {conn_id}?", yes=yes)
    with_store(dsn, lambda store: store.delete_connection(conn_id, requested_by=requester()))
    talk(f"deleted connection {conn_id}")
    report({"conn_id": conn_id, "deleted": True}, output)


@app.command("test")
def try_out(
    conn_id: ConnId,
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="Seconds to try.")] = 10.0,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Connect to it from this machine: by the hook of an installed provider, else up to its port."""
    from aiosched.cli.base.session import load
    from aiosched.cli.operation.connection_test import try_connection

    async def read(store: SecretStore) -> ConnectionValue:
        from aiosched.core.audit.kinds import AuditKind

        await store.note(AuditKind.CONNECTION_TESTED, f"connection {conn_id}")
        return await store.get_connection(conn_id)

    found = with_store(dsn, read)
    mode = load(database__dsn=dsn).settings.core.airflow
    shown = asyncio.run(try_connection(found, timeout=timeout, airflow=mode))
    talk(f"ok: {shown}")
    report({"conn_id": conn_id, "ok": True, "shown": shown}, output)


@app.command("import")
def import_(file: SourceFile, existing: Existing = "overwrite", dsn: Dsn = None, output: Output = None) -> None:
    """Store the connections of a file, all or none.

    In JSON and YAML it is an object: {"id": "URI", "other": {"conn_type": "postgres", "host": …}}; in .env each line is
    ID=URI, or ID= and such an object as JSON.
    """
    from aiosched.core.values.connections import ConnectionValue
    from aiosched.db.names.existing import IfExists

    document = {name: _only(one) for name, one in read_document(file).items()}
    if wrong := [name for name, one in document.items() if not isinstance(one, str | dict)]:
        raise UsageProblem(f"{file}: {wrong[0]} must be a URI or a JSON object.")
    values = [
        ConnectionValue.from_text(name, one) if isinstance(one, str) else ConnectionValue.from_fields(name, one)
        for name, one in document.items()
    ]
    choice = IfExists(existing)
    changes = with_store(dsn, lambda store: store.set_connections(values, existing=choice, requested_by=requester()))
    report_imported(file, changes, "connection", output)


@app.command()
def export(
    file: TargetFile,
    reveal: Reveal = False,
    overwrite: Overwrite = False,
    format_: FileFormat = None,
    values: Annotated[
        Literal["uri", "json"], typer.Option("--serialization", help="How a file .env has each connection.")
    ] = "uri",
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Write all connections to a file that `import` reads; secrets only with --reveal."""

    async def read(store: SecretStore) -> dict[str, ConnectionValue]:
        from aiosched.core.audit.kinds import AuditKind

        await store.note(AuditKind.SECRET_REVEALED, "connections")
        return await store.get_connections([info.conn_id for info in await store.list_connections(limit=1_000_000)])

    found = with_store(dsn, read)
    refuse_secrets((name for name, one in found.items() if one.masked() != one), reveal=reveal)
    document = {name: _document(found[name]) for name in sorted(found)}
    texts = {name: found[name].get_uri() if values == "uri" else json_text(document[name]) for name in document}
    write_document(file, document, "connection", output, overwrite=overwrite, form=format_, texts=texts)


def _only(one: Any) -> Any:
    """The connection itself: files of Airflow may have it in a list of its own."""
    return one[0] if isinstance(one, list) and len(one) == 1 else one


def _given(
    type: str | None,
    host: str | None,
    login: str | None,
    password: str | None,
    port: int | None,
    schema: str | None,
    extra: str | None,
    description: str | None,
) -> dict[str, Any]:
    if password == "-":
        password = _asked("Password")
    every = {
        "conn_type": type, "host": host, "login": login, "password": password, "port": port, "schema": schema,
        "extra": None if extra is None else read_json(extra, "--extra"), "description": description,
    }  # fmt: skip
    return {name: value for name, value in every.items() if value is not None}


def _asked(what: str) -> str:
    """A secret that need not stand on the command line, where other users see it."""
    if sys.stdin.isatty():
        return str(typer.prompt(what, hide_input=True, err=True))
    return sys.stdin.readline().removesuffix("\n")


def _described(conn_id: str, uri: str | None, json: str | None, given: Mapping[str, Any]) -> ConnectionValue:
    from aiosched.core.values.connections import ConnectionValue

    fields = given.keys() - {"description"} - ({"password"} if json is not None else set())
    if (uri is not None) + (json is not None) + bool(fields) != 1:
        raise UsageProblem("Describe the connection in one way: --uri, --json, or --type with --host and other fields.")
    if uri == "-":
        uri = _asked("URI")
    document = {"uri": uri, **given} if uri is not None else given
    if json is not None:
        read = read_json(json, "--json")
        if not isinstance(read, dict):
            raise UsageProblem('--json must be a JSON object such as {"conn_type": "http", "host": "example.com"}.')
        document = {**read, **given}
    value = ConnectionValue.from_fields(conn_id, document)
    if not value.conn_type:
        raise UsageProblem("Name the type of the connection, for example --type postgres.")
    return value


def _store(dsn: str | None, value: ConnectionValue, *, new: bool, team: str | None, output: Format | None) -> None:
    from aiosched.db.names.existing import IfExists

    async def store(store: SecretStore) -> Mapping[str, Change]:
        choice = IfExists.FAIL if new else IfExists.OVERWRITE
        return await store.set_connections([value], existing=choice, requested_by=requester(), team=team)

    change = with_store(dsn, store)[value.conn_id]
    talk(f"{change} connection {value.conn_id}")
    report({"conn_id": value.conn_id, "result": change}, output)


def _fields(value: ConnectionValue) -> dict[str, Any]:
    return {
        "conn_id": value.conn_id,
        "conn_type": value.conn_type,
        "host": value.host,
        "login": value.login,
        "password": value.password,
        "port": value.port,
        "schema": value.schema,
        "extra": value.extra_dejson or None,
        "description": value.description,
    }


def _document(value: ConnectionValue) -> dict[str, Any]:
    """The fields that are set, with the extras as an object, which is easier to edit."""
    found = value.as_fields()
    return {**found, "extra": value.extra_dejson} if "extra" in found else found
