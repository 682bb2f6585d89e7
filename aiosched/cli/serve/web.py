"""`aiosched web`: the web server's address for a browser."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from aiosched.cli.base.options import Dsn, Output
from aiosched.cli.base.output import report, talk
from aiosched.cli.base.page import WebPage, answers, page_at, served_address
from aiosched.cli.base.session import load, open_database

app: typer.Typer = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, add_completion=False, help="The web server's address for a browser."
)


@app.callback()
def group() -> None:
    """The web server's address for a browser."""


@app.command("address")
def address(
    open_browser: Annotated[bool, typer.Option("--open", help="Open it in a browser, too.")] = False,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Print the address, with a new one-time token if the server logs in by token."""
    settings = load(database__dsn=dsn).settings
    server = served_address(settings)

    async def find() -> WebPage:
        async with open_database(settings) as db:
            return await page_at(settings, db, server)

    page = asyncio.run(find())
    if not answers(server):
        talk(f"nothing answers at {server} yet: `aiosched serve` starts the web server")
    if open_browser and not page.open():
        talk("there is no browser on this machine: open the address yourself")
    if output is not None:
        report({"url": page.url, "login": page.login}, output)
    else:
        typer.echo(page.url)
