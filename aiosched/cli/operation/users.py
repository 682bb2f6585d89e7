"""`aiosched users`: users of the web server."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from aiosched.cli.base.options import Dsn, Output, UsageProblem, Yes, confirm
from aiosched.cli.base.output import Columns, counted, report, show_list, talk
from aiosched.cli.base.session import load, with_database
from aiosched.core.values.commands import command_line
from aiosched.errors import did_you_mean

if TYPE_CHECKING:
    from aiosched.db.people.accounts import StoredUser
    from aiosched.db.people.web_sessions import StoredSession
    from aiosched.db.server.engine import Database

app: typer.Typer = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, add_completion=False, help="Users of the web server."
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The person's name.", show_default=False)]
RoleWord = Annotated[
    str, typer.Argument(metavar="ROLE", help="viewer, operator, editor, admin, or none.", show_default=False)
]

ROLES: Final = ("viewer", "operator", "editor", "admin")
USER_ROLES: Final = ("none", *ROLES)
GrantedRole = Annotated[
    str, typer.Argument(metavar="ROLE", help="viewer, operator, editor or admin.", show_default=False)
]
Tag = Annotated[str | None, typer.Option("--tag", metavar="TAG", help="DAGs with this tag.", show_default=False)]
InFolder = Annotated[
    str | None,
    typer.Option(
        "--folder", metavar="FOLDER", help="DAGs of files below it: a path, or BUNDLE:PATH.", show_default=False
    ),
]
DagIds = Annotated[str | None, typer.Option("--dags", metavar="GLOB", help="DAGs whose ids match.", show_default=False)]
OfTeam = Annotated[
    str | None,
    typer.Option(
        "--team", metavar="TEAM", help="What the team has: also its pools and connections.", show_default=False
    ),
]
Everywhere = Annotated[bool, typer.Option("--everywhere", help="Everything there is.")]

_COLUMNS: Final[Columns[StoredUser]] = {
    "USER": lambda user: user.name,
    "ROLE": lambda user: user.role,
    "KIND": lambda user: user.kind,
    "GRANTS": lambda user: ", ".join(user.grants),
    "STATUS": lambda user: "disabled" if user.is_disabled else "enabled",
    "CREATED": lambda user: user.created_at,
}
_GRANTS: Final[Columns[dict[str, str]]] = {
    "ROLE": lambda grant: grant["role"],
    "WHERE": lambda grant: grant["where"],
}
_SESSIONS: Final[Columns[StoredSession]] = {
    "ID": lambda session: session.id,
    "LOGGED IN": lambda session: session.created_at,
    "LAST USED": lambda session: session.last_used_at,
    "ENDS": lambda session: session.expires_at,
    "ADDRESS": lambda session: session.address,
    "BROWSER": lambda session: session.agent,
}


def check_role(role: str, known: Sequence[str] = ROLES) -> str:
    """The role; raises UsageProblem with a suggestion."""
    if role not in known:
        raise UsageProblem(f"{role!r} is not a role; roles are {', '.join(known)}.{did_you_mean(role, known)}")
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
    role: Annotated[
        str,
        typer.Option("--role", metavar="ROLE", help="Everywhere: viewer, operator, editor, admin; none: see `grant`."),
    ] = "viewer",
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

    check_role(role, USER_ROLES)
    if not re.match(NAME_PATTERN, name):
        raise UsageProblem(f"{name!r} cannot be a user's name: letters, digits and . _ @ + - are allowed.")
    password = None if service else ask_password()
    if password is not None:
        check_password(password)

    async def make(db: Database) -> StoredUser:
        digest = None if password is None else await hash_password(password)
        return await create_user(db, name, role, digest, kind="service" if service else "person")

    user = with_database(dsn, make)
    talk(
        f"created {user.role} {user.name}"
        + (f"; its tokens: {command_line('tokens create', user.name)}" if service else "")
    )
    report(asdict(user), output)


@app.command()
def role(name: Name, role: RoleWord, dsn: Dsn = None, output: Output = None) -> None:
    """Change a user's role for everything there is; `none` leaves what was granted for some DAGs."""
    _change(name, dsn, output, f"{name} is {check_role(role, USER_ROLES)} everywhere now", role=role)


@app.command()
def grant(
    name: Name,
    role: GrantedRole,
    tag: Tag = None,
    folder: InFolder = None,
    dags: DagIds = None,
    team: OfTeam = None,
    everywhere: Everywhere = False,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Give a user a role for some DAGs: those with a tag, of a folder or a team, or whose ids match a glob."""
    where = _place(tag=tag, folder=folder, dags=dags, team=team, everywhere=everywhere)
    check_role(role)
    if where == "everywhere":
        _change(name, dsn, output, f"{name} is {role} everywhere now", role=role)
        return
    from aiosched.core.access.grants import RoleGrant
    from aiosched.db.access import grants
    from aiosched.db.people import accounts

    given = RoleGrant.parse(f"{role}@{where}")

    async def give(db: Database) -> StoredUser:
        await grants.add_grant(db, name, given)
        return await accounts.read_user(db, name)

    user = with_database(dsn, give)
    talk(f"{name} is {role} for {given.kind} {given.name}")
    report(asdict(user), output)


@app.command()
def ungrant(
    name: Name,
    tag: Tag = None,
    folder: InFolder = None,
    dags: DagIds = None,
    team: OfTeam = None,
    everywhere: Everywhere = False,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Revoke a user's role for these DAGs."""
    where = _place(tag=tag, folder=folder, dags=dags, team=team, everywhere=everywhere)
    if where == "everywhere":
        _change(name, dsn, output, f"{name} has no role everywhere any more", role="none")
        return
    from aiosched.core.access.grants import RoleGrant
    from aiosched.db.access import grants
    from aiosched.db.people import accounts

    taken = RoleGrant.parse(f"viewer@{where}")

    async def take(db: Database) -> StoredUser:
        await grants.remove_grant(db, name, taken)
        return await accounts.read_user(db, name)

    user = with_database(dsn, take)
    talk(f"{name} has no role for {taken.kind} {taken.name} any more")
    report(asdict(user), output)


@app.command("grants")
def list_grants(name: Name, dsn: Dsn = None, output: Output = None) -> None:
    """List the grants of a user."""
    from aiosched.db.people.accounts import read_user

    user = with_database(dsn, lambda db: read_user(db, name))
    held = [] if user.role == "none" else [{"role": user.role, "where": "everywhere"}]
    for each in user.grants:
        role, _, where = each.partition("@")
        held.append({"role": role, "where": where})
    give = command_line("users grant", name, "viewer")
    show_list(held, _GRANTS, output, empty=f"{name} has no grants; give one with: {give} …")


@app.command()
def password(
    name: Name,
    keep_tokens: Annotated[
        bool, typer.Option("--keep-tokens", help="Leave tokens for programs as they are; those of /auth/token end.")
    ] = False,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Set a user's password, and end their sessions and tokens."""
    from aiosched.db.people.accounts import change_user
    from aiosched.web.auth.passwords import check_password, hash_password

    typed = ask_password()
    check_password(typed)

    async def change(db: Database) -> StoredUser:
        return await change_user(db, name, password=await hash_password(typed), keep_tokens=keep_tokens)

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
    """End all sessions of a user, and their logins to Airflow's API; tokens for programs stay."""
    from aiosched.db.people.web_sessions import end_sessions

    ended = with_database(dsn, lambda db: end_sessions(db, name))
    logins = f" and {counted(ended.tokens, 'token')} of /auth/token" if ended.tokens else ""
    talk(f"ended {counted(ended.sessions, 'session')}{logins} of {name}")
    report({"name": name, "ended": ended.sessions, "tokens": ended.tokens}, output)


def _place(*, everywhere: bool, **names: str | None) -> str:
    """Where a grant holds, as `kind:name` or `everywhere`. Raises UsageProblem unless one place is named."""
    places = [f"{kind}:{name}" for kind, name in names.items() if name is not None] + ["everywhere"] * everywhere
    if len(places) != 1:
        raise UsageProblem("Say where, with one of --tag, --folder, --dags, --team and --everywhere.")
    return places[0]


def _change(name: str, dsn: str | None, output: Any, done: str, **changes: Any) -> None:
    from aiosched.db.people.accounts import change_user

    user = with_database(dsn, lambda db: change_user(db, name, **changes))
    talk(done)
    report(asdict(user), output)
