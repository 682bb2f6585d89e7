"""The root command: the commands, their names, and the modules that define them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, ClassVar, Final, NoReturn

import typer

from aiosched.cli.lazy import Entry, LazyGroup
from aiosched.version import __version__

_START, _WORK, _OPERATE = "Start", "DAGs and their runs", "Operate"


def _entry(name: str, help: str, panel: str) -> Entry:
    return Entry(f"aiosched.cli.{name}", help, panel)


_VISIBLE: Final = {
    "init": _entry("operation.init", "Create a folder with settings, a DAG and its test.", _START),
    "serve": _entry("serve.serve", "Run everything: database, parsing, scheduler and workers.", _START),
    "doctor": _entry(
        "operation.doctor", "Check database, schema, schedulers and parsing; say how to fix errors.", _START
    ),
    "version": _entry("operation.version", "Show the versions of aiosched and of its dependencies.", _START),
    "dags": _entry("dags.dags", "List, trigger, pause, test and check DAGs.", _WORK),
    "runs": _entry("dags.runs", "List, show, watch and cancel runs.", _WORK),
    "why": _entry("dags.why", "Explain why something does not run: who holds what it needs, and how to fix it.", _WORK),
    "simulate": _entry("dags.simulate", "Show what would run when, and the bottleneck.", _WORK),
    "tasks": _entry("dags.tasks", "List tasks, show their tries and logs.", _WORK),
    "inputs": _entry("dags.inputs", "List what tasks ask people, and answer it.", _WORK),
    "assets": _entry("dags.assets", "List assets and their events, emit an event.", _WORK),
    "backfill": _entry("dags.backfill", "Run DAGs for past dates: create, follow, pause, cancel.", _WORK),
    "schedules": _entry("dags.schedules", "List, set, pause and remove schedules of DAGs that are data.", _WORK),
    "pools": _entry("operation.pools", "List, set and delete pools.", _OPERATE),
    "alerts": _entry("people.alerts", "List alerts and their rules, send a test message.", _OPERATE),
    "variables": _entry("operation.variables", "List, set and delete variables of DAGs.", _OPERATE),
    "connections": _entry("operation.connections", "List, add, test and delete connections.", _OPERATE),
    "providers": _entry("operation.providers", "Install and list Airflow's provider packages.", _OPERATE),
    "users": _entry("operation.users", "List, add and change users who can log in; grant them roles.", _OPERATE),
    "teams": _entry("people.teams", "List, create and delete teams, and set the folders of their DAG files.", _OPERATE),
    "tokens": _entry("operation.tokens", "List, create and revoke API tokens.", _OPERATE),
    "requests": _entry("operation.requests", "List requests and their outcomes, withdraw one that waits.", _OPERATE),
    "audit": _entry("people.audit", "List and export who did what, from where.", _OPERATE),
    "schedulers": _entry("operation.schedulers", "List schedulers and check that they are alive.", _OPERATE),
    "web": _entry("serve.web", "Print or open the address of the web server.", _OPERATE),
    "worker": _entry("serve.worker", "Run attempts that an engine has delivered to this machine.", _OPERATE),
    "celery": _entry("serve.celery", "Start a Celery worker that runs attempts.", _OPERATE),
    "db": _entry("operation.db", "Migrate, check, back up and open the database.", _OPERATE),
    "config": _entry("operation.config", "Show settings and where they come from.", _OPERATE),
    "migrate": _entry("operation.migrate", "Move from Airflow: check its DAG files, import its data.", _OPERATE),
    "airflow": _entry("airflow.shell", "Answer the words of Airflow's command line.", _OPERATE),
}


def _hidden(name: str, *arguments: str) -> Entry:
    entry = _VISIBLE[name]
    return Entry(entry.module, entry.help, entry.panel, hidden=True, arguments=arguments)


# Singular nouns, and Airflow's names for the same commands.
_ALIASES: Final = {
    **{
        name.removesuffix("s"): _hidden(name)
        for name in (
            "dags",
            "runs",
            "tasks",
            "inputs",
            "assets",
            "pools",
            "alerts",
            "variables",
            "connections",
            "providers",
            "users",
            "teams",
            "tokens",
            "requests",
            "schedules",
        )
    },
    "request": _hidden("requests"),
    "backfills": _hidden("backfill"),
    "scheduler": _hidden("serve", "--no-web"),
    "dag-processor": _hidden("serve", "--role", "parser"),
    "standalone": _hidden("serve"),
    "jobs": _hidden("schedulers"),
    "rotate-fernet-key": _hidden("db", "rotate-keys"),
}


class Root(LazyGroup):
    """`aiosched`."""

    entries: ClassVar[Mapping[str, Entry]] = MappingProxyType(_VISIBLE | _ALIASES)

    def entry(self, args: Sequence[str]) -> Entry | None:
        """`scheduler list` is an alias of `schedulers list`; `scheduler` alone starts one, as in Airflow."""
        if args[0] == "scheduler" and args[1:2] in (["list"], ["check"]):
            return self.entries["schedulers"]
        return super().entry(args)


app: Final = typer.Typer(
    cls=Root,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="The Airflow scheduler, rebuilt for asyncio and PostgreSQL.",
    epilog="First steps: aiosched init demo && cd demo && aiosched serve",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"aiosched {__version__}")
        raise typer.Exit


@app.callback()
def root(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options before the command."""
    if debug:
        os.environ["AIOSCHED_DEBUG"] = "1"


def run(application: typer.Typer, argv: Sequence[str] | None = None) -> NoReturn:
    """Run `argv` and exit with its code."""
    typer.main.get_command(application)(args=argv, prog_name="aiosched")
    sys.exit(0)
