"""`aiosched users`: users of the web server."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from aiosched.cli.base.options import Dsn, Output, UsageProblem, Yes, confirm
from aiosched.cli.base.output import Columns, counted, report, show_list, talk
from aiosched.cli.base.session import load, with_database
from aiosched.errors import did_you_mean

if TYPE_CHECKING:
    from aiosched.db.people.accounts import StoredUser
    from aiosched.db.people.web_sessions import StoredSession
    from aiosched.db.server.engine import Database

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, add_completion=False, help="Users of the web server.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The person's name.", show_default=False)]
RoleWord = Annotated[str, typer.Argument(metavar="ROLE", help="viewer, operator or admin.", show_default=False)]

ROLES: Final = ("viewer", "operator", "admin")
_COLUMNS: Final[Columns[StoredUser]] = {
    "USER": lambda user: user.name,
    "ROLE": lambda user: user.role,
    "KIND": lambda user: user.kind,
    "STATUS": lambda user: "disabled" if user.is_disabled else "enabled",
    "CREATED": lambda user: user.created_at,
}
_SESSIONS: Final[Columns[StoredSession]] = {
    "ID": lambda session: session.id,
    "LOGGED IN": lambda session: session.created_at,
    "LAST USED": lambda session: session.last_used_at,
    "ENDS": lambda session: session.expires_at,
    "ADDRESS": lambda session: session.address,
    "BROWSER": lambda session: session.agent,
}


def check_role(role: str) -> str:
    """The role; raises UsageProblem with a suggestion."""
    if role not in ROLES:
        raise UsageProblem(f"{role!r} is not a role; roles are {', '.join(ROLES)}.{did_you_mean(role, ROLES)}")
    return role


def ask_password() -> str:
    """A password, typed twice on a terminal, else the first line of stdin."""
    if sys.stdin.isatty():
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    return sys.stdin.readline().rstrip("\n")


@app.command("list")
def list_(dsn: Dsn = None, output: Output = None) -> None:
    """List users with their roles."""
    from aiosched.db.people.accounts import list_users

    rows = with_database(dsn, list_users)
    show_list(rows, _COLUMNS, output, empty="no users; create one with: aiosched users create NAME --role admin")


@app.command()
def create(
    name: Name,
    role: Annotated[str, typer.Option("--role", metavar="ROLE", help="viewer, operator or admin.")] = "viewer",
    service: Annotated[
        bool, typer.Option("--service", help="An account for a program: no password, no login, only tokens.")
    ] = False,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Create a user. The password is prompted for, or read from stdin."""
    import re

    from aiosched.db.people.accounts import NAME_PATTERN, create_user
    from aiosched.web.auth.passwords import check_password, hash_password

    check_role(role)
    if not re.match(NAME_PATTERN, name):
        raise UsageProblem(f"{name!r} cannot be a user's name: letters, digits and . _ @ + - are allowed.")
    password = None if service else ask_password()
    if password is not None:
        check_password(password)

    async def make(db: Database) -> StoredUser:
        digest = None if password is None else await hash_password(password)
        return await create_user(db, name, role, digest, kind="service" if service else "person")

    user = with_database(dsn, make)
    talk(f"created {user.role} {user.name}" + (f"; its tokens: aiosched tokens create {user.name}" if service else ""))
    report(asdict(user), output)


@app.command()
def role(name: Name, role: RoleWord, dsn: Dsn = None, output: Output = None) -> None:
    """Change a user's role."""
    _change(name, dsn, output, f"{name} is {check_role(role)} now", role=role)


@app.command()
def password(name: Name, dsn: Dsn = None, output: Output = None) -> None:
    """Set a user's password, and end their sessions."""
    from aiosched.db.people.accounts import change_user
    from aiosched.web.auth.passwords import check_password, hash_password

    typed = ask_password()
    check_password(typed)

    async def change(db: Database) -> StoredUser:
        return await change_user(db, name, password=await hash_password(typed))

    user = with_database(dsn, change)
    talk(f"the password of {name} is set")
    report(asdict(user), output)


@app.command()
def disable(name: Name, dsn: Dsn = None, output: Output = None) -> None:
    """Disable a user and their tokens."""
    _change(name, dsn, output, f"{name} is disabled", is_disabled=True)


@app.command()
def enable(name: Name, dsn: Dsn = None, output: Output = None) -> None:
    """Enable a disabled user."""
    _change(name, dsn, output, f"{name} is enabled", is_disabled=False)


@app.command()
def delete(name: Name, yes: Yes = False, dsn: Dsn = None, output: Output = None) -> None:
    """Delete a user, their tokens and their sessions."""
    from aiosched.db.people.accounts import delete_user

    confirm(f"Delete the user {name} and their tokens?", yes=yes)
    with_database(dsn, lambda db: delete_user(db, name))
    talk(f"deleted {name}")
    report({"name": name, "deleted": True}, output)


@app.command()
def sessions(name: Name, dsn: Dsn = None, output: Output = None) -> None:
    """List the browsers in which a user is logged in."""
    from aiosched.db.people.local_logins import LOCAL, SESSION_SECONDS
    from aiosched.db.people.web_sessions import list_sessions

    idle = load(database__dsn=dsn).settings.web.session_idle_hours * 3600 if name != LOCAL else SESSION_SECONDS
    rows = with_database(dsn, lambda db: list_sessions(db, name, idle_seconds=idle))
    show_list(rows, _SESSIONS, output, empty=f"{name} is not logged in")


@app.command("log-out")
def log_out(name: Name, dsn: Dsn = None, output: Output = None) -> None:
    """End all sessions of a user; tokens stay."""
    from aiosched.db.people.web_sessions import end_sessions

    ended = with_database(dsn, lambda db: end_sessions(db, name))
    talk(f"ended {counted(ended, 'session')} of {name}")
    report({"name": name, "ended": ended}, output)


def _change(name: str, dsn: str | None, output: Any, done: str, **changes: Any) -> None:
    from aiosched.db.people.accounts import change_user

    user = with_database(dsn, lambda db: change_user(db, name, **changes))
    talk(done)
    report(asdict(user), output)
