"""`aiosched tokens`: tokens for programs that use the REST API."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final

import typer

from aiosched.cli.base.options import MOST_BIGINT, Dsn, Output
from aiosched.cli.base.output import Columns, report, show_list, talk
from aiosched.cli.base.session import load, with_database
from aiosched.cli.operation.users import Name, check_role
from aiosched.core.values.commands import command_line
from aiosched.errors import NotFound

if TYPE_CHECKING:
    from aiosched.db.people.accounts import StoredToken
    from aiosched.db.server.engine import Database

app: typer.Typer = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, add_completion=False, help="Tokens for programs that use the REST API."
)

_COLUMNS: Final[Columns[StoredToken]] = {
    "TOKEN": lambda token: token.id,
    "OWNER": lambda token: token.owner,
    "LABEL": lambda token: token.label,
    "ROLE": lambda token: token.role,
    "SCOPE": lambda token: "read only" if token.read_only else "all of the role",
    "ONLY": lambda token: ", ".join(token.grants or ()),
    "EXPIRES": lambda token: token.expires_at or "never",
    "LAST USED": lambda token: token.last_used_at,
}


@app.command("list")
def list_(
    owner: Annotated[str | None, typer.Option("--owner", metavar="NAME", help="Only tokens of this user.")] = None,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """List tokens, without their secret values, which are not stored."""
    from aiosched.db.people.accounts import list_tokens

    rows = with_database(dsn, lambda db: list_tokens(db, owner))
    show_list(rows, _COLUMNS, output, empty="no tokens; create one with: aiosched tokens create NAME --label WHAT")


@app.command()
def create(
    name: Name,
    label: Annotated[str, typer.Option("--label", metavar="TEXT", help="The purpose of the token.")] = "command line",
    role: Annotated[str, typer.Option("--role", metavar="ROLE", help="At most the role of its owner.")] = "viewer",
    grant: Annotated[
        list[str] | None,
        typer.Option(
            "--grant",
            metavar="GRANT",
            help="Only what this covers of what its owner may do, such as viewer@tag:etl; repeatable.",
        ),
    ] = None,
    days: Annotated[
        float, typer.Option("--days", min=0, help="Days until it expires, at most web.max_token_days; 0: never.")
    ] = 90.0,
    read_only: Annotated[bool, typer.Option("--read-only", help="It answers requests that change nothing.")] = False,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Create a token for a user and print it; it is shown only this once."""
    from aiosched.core.access.grants import RoleGrant
    from aiosched.db.people.accounts import create_token
    from aiosched.web.auth.passwords import check_lifetime, hash_token, new_token

    check_role(role)
    check_lifetime(days or None, load(database__dsn=dsn).settings.web.max_token_days)
    grants = [RoleGrant.parse(text) for text in grant] if grant else None
    token = new_token()
    expires_at = datetime.now(UTC) + timedelta(days=days) if days else None

    async def make(db: Database) -> StoredToken:
        try:
            return await create_token(db, name, label, hash_token(token), role, expires_at, grants, read_only=read_only)
        except NotFound as error:
            raise NotFound(f"{error} {await _owners(db, name)}") from None

    made = with_database(dsn, make)
    if output is not None:
        facts = {"role": made.role, "grants": made.grants, "read_only": made.read_only, "expires_at": made.expires_at}
        report({"token": token, "id": made.id, **facts}, output)
    else:
        typer.echo(token)


async def _owners(db: Database, name: str) -> str:
    """Whose a token can be instead of the user `name`, who does not exist."""
    from aiosched.db.people.accounts import list_users
    from aiosched.db.people.local_logins import LOCAL

    is_local = any(user.kind == LOCAL for user in await list_users(db))
    local = f"Who logs in without a password is {LOCAL!r}: aiosched tokens create {LOCAL}. " if is_local else ""
    command = command_line("users create", name, options=("--role", "viewer", "--service"))
    return f"{local}A program gets an account by: {command}."


@app.command()
def revoke(
    number: Annotated[
        int, typer.Argument(metavar="TOKEN", min=1, max=MOST_BIGINT, help="Its number.", show_default=False)
    ],
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Revoke a token."""
    from aiosched.db.people.accounts import delete_token

    with_database(dsn, lambda db: delete_token(db, number, None))
    talk(f"revoked token {number}")
    report({"id": number, "revoked": True}, output)
