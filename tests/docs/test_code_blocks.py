"""Every fenced block of the README and of `docs` is run, parsed or loaded; a fragment says why it is not."""

from __future__ import annotations

import ast
import json
import tomllib
from pathlib import Path
from typing import Any, Final

import asyncpg
import pytest
import typer
import yaml

import aiosched
from aiosched.cli.app import app
from aiosched.config import load_settings
from tests.docs.code_blocks import Block, blocks, commands, commands_of_line

CHECKED: Final = {"python", "console", "toml", "json", "yaml", "sql"}
SHOWN: Final = {"text", "dockerfile", "nginx"}  # nothing here reads them
PUBLIC: Final = {name: getattr(aiosched, name) for name in aiosched.__all__}  # as after `from aiosched import …`


def parse(words: list[str]) -> None:
    """Parse a command line with its real commands, without running it. Raises what a user would be told."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("aiosched", list(words))
    while hasattr(command, "list_commands"):
        rest = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)


def test_every_block_has_a_language_that_is_known_here() -> None:
    unknown = [
        f"{block}: {block.language!r}"
        for block in blocks()
        if block.language not in CHECKED | SHOWN and not block.language.startswith("{")  # a directive of the site
    ]

    assert unknown == []


def test_the_commands_of_the_documents_are_those_of_the_command_line() -> None:
    found = [(block, words) for block in blocks("console") for words in commands(block)]
    wrong = []

    for block, words in found:
        try:
            parse(words)
        except Exception as error:
            wrong.append(f"{block}: aiosched {' '.join(words)}: {getattr(error, 'message', error)}")

    assert len(found) > 60
    assert wrong == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("aiosched dags list   # all of them", [["dags", "list"]]),
        ("cd demo && venv/bin/aiosched serve | cat", [["serve"]]),
        ("A=1 sudo -u flows aiosched doctor > log", [["doctor"]]),
        ("docker compose exec aiosched aiosched schedulers list", [["schedulers", "list"]]),
        ("kubectl create secret generic aiosched", []),
        ("cp aiosched.toml /etc", []),
    ],
)
def test_the_commands_of_a_line_are_found(line: str, found: list[list[str]]) -> None:
    assert list(commands_of_line(line)) == found


@pytest.mark.parametrize("words", [["dags", "lst"], ["dags", "list", "--no-such-option"], ["pools", "set", "etl"]])
def test_a_wrong_command_is_noticed(words: list[str]) -> None:
    with pytest.raises(Exception, match=r"No such|Missing"):
        parse(words)


@pytest.mark.parametrize("page", sorted({block.page for block in blocks("python")}), ids=lambda page: page.name)
def test_the_python_of_a_page_runs(page: Path) -> None:
    """In order, with the names of `aiosched` and of the blocks above; a fragment is compiled only."""
    names: dict[str, Any] = {"__name__": "example", **PUBLIC}
    ran = fragments = 0

    for block in blocks("python"):
        if block.page != page:
            continue
        if block.note:
            compile(block.text, str(block), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            fragments += 1
        else:
            exec(compile(block.text, str(block), "exec"), names)
            ran += 1

    assert ran + fragments > 0


def test_a_block_that_is_not_run_says_why() -> None:
    assert {str(block): block.note for block in blocks("python") if block.note[:12] not in ("", "a fragment: ")} == {}


@pytest.mark.parametrize("block", blocks("toml"), ids=str)
def test_settings_of_the_documents_are_settings(block: Block, tmp_path: Path) -> None:
    tables = tomllib.loads(block.text)
    if tables.keys() <= {"project", "build-system"}:  # of somebody's own package
        return
    name = "pyproject.toml" if "tool" in tables else "aiosched.toml"
    (tmp_path / name).write_text(block.text, encoding="utf-8")

    loaded = load_settings(environ={}, folder=tmp_path)

    assert any(origin.source != "default" for origin in loaded.origins.values())


@pytest.mark.parametrize("block", blocks("json", "yaml"), ids=str)
def test_documents_of_the_documents_can_be_read(block: Block) -> None:
    assert json.loads(block.text) if block.language == "json" else yaml.safe_load(block.text)


@pytest.mark.parametrize("block", blocks("sql"), ids=str)
async def test_sql_of_the_documents_is_understood_by_postgresql(block: Block, dsn: str) -> None:
    conn = await asyncpg.connect(dsn)
    try:
        transaction = conn.transaction()
        await transaction.start()
        await conn.execute("CREATE ROLE flows")  # the user of the settings in these pages
        await conn.execute(block.text)
        await transaction.rollback()
    finally:
        await conn.close()
