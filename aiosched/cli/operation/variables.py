"""`aiosched variables`: list, get, set, delete, import and export.

A value that is a secret is shown only with `--reveal`.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from aiosched.cli.base.options import Dsn, Output, Yes, confirm, read_json
from aiosched.cli.base.output import Columns, Format, chosen, report, show_list, show_one, talk, write
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
    from aiosched.db.people.secrets import SecretStore, VariableValue

app: typer.Typer = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, add_completion=False, help="Settings of DAGs."
)

Key = Annotated[str, typer.Argument(metavar="KEY", help="The variable's key.", show_default=False)]

_DOCUMENTS: Final = ({"value", "description"}, {"value", "description", "secret"})  # keys of a variable in a file
_COLUMNS: Final[Columns[dict[str, Any]]] = {
    "KEY": lambda one: one["key"],
    "DESCRIPTION": lambda one: one.get("description"),
    "TEAM": lambda one: one.get("team"),
    "SECRET": lambda one: one.get("is_secret"),
    "CHANGED": lambda one: one.get("changed_at"),
    "BY": lambda one: one.get("changed_by"),
    "FROM": lambda one: one["source"],
    "HIDDEN BY": lambda one: one["hidden_by"],
}


@app.command("list")
def list_(dsn: Dsn = None, output: Output = None) -> None:
    """List variables, without their values: those of backends, of this environment and of the database."""
    found = list_everywhere(dsn, "variable", lambda store: store.list_variables(), "key")
    show_list(found, _COLUMNS, output, empty="no variables")


@app.command()
def get(
    key: Key,
    default: Annotated[
        str | None, typer.Option("--default", "-d", metavar="VALUE", help="The value to show if there is none.")
    ] = None,
    reveal: Reveal = False,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Show the value of a variable in the database; a secret one with --reveal."""

    async def read(store: SecretStore) -> VariableValue:
        from aiosched.core.audit.kinds import AuditKind
        from aiosched.db.people.secrets import VariableValue

        if reveal:
            await store.note(AuditKind.SECRET_REVEALED, f"variable {key}")
        if default is None:
            return await store.get_variable(key)
        return (await store.get_variables([key])).get(key) or VariableValue(default)

    found = with_store(dsn, read)
    value = found.value if reveal else found.shown(key)
    if value != found.value:
        talk(f"{key} holds a secret: add --reveal to see it")
    if chosen(output) in (Format.JSON, Format.YAML):
        show_one({"key": key, "value": value, "description": found.description}, output)
    else:
        write(value)


@app.command("set")
def set_(
    key: Key,
    value: Annotated[
        str, typer.Argument(metavar="VALUE", help="The value; - reads the standard input.", show_default=False)
    ],
    description: Annotated[str | None, typer.Option("--description", help="The purpose.", show_default=False)] = None,
    team: Team = None,
    secret: Annotated[
        bool | None,
        typer.Option("--secret/--no-secret", help="Never show its value, whatever its key is.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", "-j", help="Refuse a value that is not JSON.")] = False,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Create or change a variable; idempotent."""
    from aiosched.db.people.secrets import VariableValue

    text = sys.stdin.read().removesuffix("\n") if value == "-" else value
    if as_json:
        read_json(text, f"the value of {key}")
    changes = with_store(
        dsn,
        lambda store: store.set_variables(
            {key: VariableValue(text, description, secret)}, requested_by=requester(), team=team
        ),
    )
    talk(f"{changes[key]} variable {key}")
    report({"key": key, "result": changes[key]}, output)


@app.command()
def delete(key: Key, yes: Yes = False, dsn: Dsn = None, output: Output = None) -> None:
    """Delete a variable."""
    confirm(f"Delete variable {key}?", yes=yes)
    with_store(dsn, lambda store: store.delete_variable(key, requested_by=requester()))
    talk(f"deleted variable {key}")
    report({"key": key, "deleted": True}, output)


@app.command("import")
def import_(file: SourceFile, existing: Existing = "overwrite", dsn: Dsn = None, output: Output = None) -> None:
    """Store the variables of a file, all or none.

    In JSON and YAML it is an object: {"key": value, "other": {"value": value, "description": text}}, and "secret" true
    in one that is never shown; in .env each line
    is KEY=value. Texts are stored as they are, other values as JSON.
    """
    from aiosched.db.names.existing import IfExists

    values = {key: _value(document) for key, document in read_document(file).items()}
    choice = IfExists(existing)
    changes = with_store(dsn, lambda store: store.set_variables(values, existing=choice, requested_by=requester()))
    report_imported(file, changes, "variable", output)


@app.command()
def export(
    file: TargetFile,
    reveal: Reveal = False,
    overwrite: Overwrite = False,
    format_: FileFormat = None,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Write all variables to a file that `import` reads; secrets only with --reveal."""

    async def read(store: SecretStore) -> dict[str, VariableValue]:
        from aiosched.core.audit.kinds import AuditKind

        await store.note(AuditKind.SECRET_REVEALED, "variables")
        return await store.get_variables([info.key for info in await store.list_variables(limit=1_000_000)])

    found = with_store(dsn, read)
    refuse_secrets((key for key, one in found.items() if one.shown(key) != one.value), reveal=reveal)
    document = {key: _document(found[key]) for key in sorted(found)}
    texts = {key: found[key].value for key in document}
    write_document(file, document, "variable", output, overwrite=overwrite, form=format_, texts=texts)


def _value(document: Any) -> VariableValue:
    from aiosched.db.people.secrets import VariableValue

    description, is_secret = None, None
    if isinstance(document, dict) and document.keys() in _DOCUMENTS:
        description, is_secret = document["description"], document.get("secret")
        document = document["value"]
    text = document if isinstance(document, str) else json.dumps(document)
    return VariableValue(
        text, None if description is None else str(description), None if is_secret is None else bool(is_secret)
    )


def _document(found: VariableValue) -> Any:
    value = _structured(found.value)
    if found.is_secret:
        return {"value": value, "description": found.description, "secret": True}
    return value if found.description is None else {"value": value, "description": found.description}


def _structured(text: str) -> Any:
    """An object or list for its JSON, if `import` makes the same text of it."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    is_plain = isinstance(value, list) or (isinstance(value, dict) and value.keys() not in _DOCUMENTS)
    return value if is_plain and json.dumps(value) == text else text
