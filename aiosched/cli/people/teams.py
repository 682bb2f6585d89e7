"""`aiosched teams`: teams, and the folders whose DAG files are theirs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from aiosched.cli.base.options import Dsn, Output, Yes, confirm
from aiosched.cli.base.output import Columns, counted, report, show_list, talk
from aiosched.cli.base.session import with_database

if TYPE_CHECKING:
    from aiosched.db.people.teams import StoredTeam

app: typer.Typer = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, add_completion=False, help="Teams and the folders of their DAG files."
)

Team = Annotated[str, typer.Argument(metavar="TEAM", help="The team's name.", show_default=False)]
Folder = Annotated[
    str,
    typer.Argument(
        metavar="FOLDER",
        help="A path below the DAGs folder, or BUNDLE:PATH; `BUNDLE:` for a whole bundle.",
        show_default=False,
    ),
]

_COLUMNS: Final[Columns[StoredTeam]] = {
    "TEAM": lambda team: team.name,
    "FOLDERS": lambda team: ", ".join(folder or "." for folder in team.folders),
    "DAGS": lambda team: team.dags,
    "DESCRIPTION": lambda team: team.description,
}


@app.command("list")
def list_(dsn: Dsn = None, output: Output = None) -> None:
    """List teams with their folders and the number of their DAGs."""
    from aiosched.db.people.teams import list_teams

    rows = with_database(dsn, list_teams)
    show_list(rows, _COLUMNS, output, empty="no teams; create one with: aiosched teams create TEAM --folder FOLDER")


@app.command()
def create(
    team: Team,
    folder: Annotated[
        list[str] | None, typer.Option("--folder", metavar="FOLDER", help="A folder of its DAG files; repeatable.")
    ] = None,
    description: Annotated[str | None, typer.Option("--description", metavar="TEXT", help="Who they are.")] = None,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Create a team, and give it folders."""
    from aiosched.db.people.teams import create_team

    _tell(with_database(dsn, lambda db: create_team(db, team, description, folder or ())), output)


@app.command()
def delete(team: Team, yes: Yes = False, dsn: Dsn = None, output: Output = None) -> None:
    """Delete a team: its DAGs are kept without a team, grants for it no longer have an effect."""
    from aiosched.db.people.teams import delete_team

    confirm(f"Delete the team {team}? Its DAGs will belong to nobody.", yes=yes)
    with_database(dsn, lambda db: delete_team(db, team))
    talk(f"deleted {team}")
    report({"name": team, "deleted": True}, output)


@app.command("add-folder")
def add_folder(team: Team, folder: Folder, dsn: Dsn = None, output: Output = None) -> None:
    """Give a team the DAG files of a folder. Of two folders that hold a file, the longer one decides."""
    from aiosched.db.people import teams as stored_teams
    from aiosched.db.server.engine import Database

    async def change(db: Database) -> StoredTeam:
        await stored_teams.add_folder(db, team, folder)
        return await stored_teams.get_team(db, team)

    _tell(with_database(dsn, change), output)


@app.command("remove-folder")
def remove_folder(team: Team, folder: Folder, dsn: Dsn = None, output: Output = None) -> None:
    """Take a folder from a team."""
    from aiosched.db.people import teams as stored_teams
    from aiosched.db.server.engine import Database

    async def change(db: Database) -> StoredTeam:
        await stored_teams.remove_folder(db, team, folder)
        return await stored_teams.get_team(db, team)

    _tell(with_database(dsn, change), output)


@app.command("move-dag")
def move_dag(
    dag_id: Annotated[str, typer.Argument(help="a DAG that no file defines any more")],
    team: Annotated[str | None, typer.Option("--team", help="its new team; without it the DAG is nobody's")] = None,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Give a DAG, with its history, to another team, whose files can define it when they are read next."""
    from aiosched.db.people import teams as stored_teams

    with_database(dsn, lambda db: stored_teams.move_dag(db, dag_id, team))
    talk(f"{dag_id}: {team or 'of no team'}")
    talk("A file that defines it gets it when it is read next: once it is saved, else after parsing.reparse_interval.")
    report({"dag_id": dag_id, "team": team}, output)


def _tell(team: StoredTeam, output: Output) -> None:
    where = ", ".join(folder or "the DAGs folder" for folder in team.folders) or "no folder"
    talk(f"{team.name}: {where}, {counted(team.dags, 'DAG')}")
    report(asdict(team), output)
