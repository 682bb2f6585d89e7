"""`--open`: the page of what a command shows, in a browser."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote, urlencode

import typer

from aiosched.cli.base.output import talk
from aiosched.cli.base.page import WebPage, page_at, served_address
from aiosched.cli.base.session import load, open_database

if TYPE_CHECKING:
    from aiosched.db.lists.chosen import WantedRuns

Open = Annotated[bool, typer.Option("--open", help="Open its page in a browser; its address is on stderr.")]


def page_path(dag_id: str, run_id: str | None = None, task_id: str | None = None, map_index: int = -1) -> str:
    """The path of the page of a DAG, a run or a task instance."""
    parts = ["dags", dag_id]
    if run_id is not None:
        parts += ["runs", run_id]
    if task_id is not None:
        parts += ["tasks", task_id]
    path = "".join(f"/{quote(part, safe='')}" for part in parts)
    return path if map_index < 0 else f"{path}?map_index={map_index}"


def list_path(page: str, wanted: WantedRuns, **others: str | float | Collection[str] | None) -> str:
    """The path of the page of a list with the same filters.

    The page filters by whole days (UTC): it may show more than the list.
    """
    since = wanted.since or wanted.ended_since
    until = wanted.until
    if isinstance(until, datetime):
        until += timedelta(days=1, microseconds=-1)  # the day after, unless at midnight
    filters = {
        "state": wanted.states,
        "dag_id": wanted.dags.dag_ids,
        "run_type": wanted.run_types,
        "owner": wanted.dags.owners,
        "tag": wanted.dags.tags,
        "time": "range" if since or until else None,
        "from": since and f"{since:%Y-%m-%d}",
        "to": until and f"{until:%Y-%m-%d}",
        "longer": wanted.min_seconds,
        "shorter": wanted.max_seconds,
        "order": "-end_date" if wanted.ended_since else None,
        "not_state": wanted.without.states,
        "not_run_type": wanted.without.run_types,
        "not_dag_id": wanted.without.dag_ids,
        "not_owner": wanted.without.owners,
        "not_team": wanted.without.teams,
        "not_tag": wanted.without.tags,
    }
    given = {name: value for name, value in {**filters, **others}.items() if value not in (None, "")}
    query = urlencode(given, doseq=True)
    return f"/{page}?{query}" if query else f"/{page}"


def open_page(dsn: str | None, path: str) -> None:
    """Open a page of the web server, and say its address."""
    settings = load(database__dsn=dsn).settings

    async def find() -> WebPage:
        async with open_database(settings) as db:
            return await page_at(settings, db, served_address(settings), path)

    page = asyncio.run(find())
    talk(page.url)
    if not page.open():
        talk("there is no browser on this machine: open the address by hand")
