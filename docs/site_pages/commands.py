"""The directive `command-line`: every command with its arguments and options, from the command line itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import typer

from aiosched.cli.app import app
from site_pages.generated import Generated, cell


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """All commands that are not hidden, by their words, groups before their commands."""
    root: Any = typer.main.get_command(app)
    yield from _below(root, click.Context(root, info_name="aiosched"), ())


def _below(group: Any, context: click.Context, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        yield (*words, name), command
        if hasattr(command, "list_commands"):
            yield from _below(command, click.Context(command, info_name=name, parent=context), (*words, name))


class CommandLine(Generated):
    """A section for each command."""

    def markdown(self) -> str:
        """Sections of the commands."""
        lines: list[str] = []
        for words, command in commands():
            lines += [f"{'#' * (len(words) + 1)} aiosched {' '.join(words)}", "", _escaped(command.help or ""), ""]
            if hasattr(command, "list_commands"):
                continue
            lines += ["```text", _usage(words, command), "```", ""]
            lines += _parameters(command)
        return "\n".join(lines)


def _usage(words: tuple[str, ...], command: Any) -> str:
    context = click.Context(command, info_name="aiosched " + " ".join(words))
    return " ".join([context.command_path, *command.collect_usage_pieces(context)])


def _parameters(command: Any) -> list[str]:
    context = click.Context(command, info_name="")
    rows = [row for one in command.get_params(context) if (row := one.get_help_record(context))]
    if not rows:
        return []
    return ["| | |", "|---|---|", *(f"| `{name}` | {cell(_escaped(text))} |" for name, text in rows), ""]


def _escaped(text: str) -> str:
    for sign in "*[]<":
        text = text.replace(sign, "\\" + sign)
    return text.replace("\b\n", "")
