"""`python -m tools.cli_strings`: the help of every command, its options and arguments, to be read as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import typer.main

from aiosched.cli.app import Root


def lines_of(command: Any, path: str) -> Iterator[str]:
    """The help of a command and of all below it; hidden ones are other spellings."""
    yield path
    yield f"  {' '.join((command.help or command.short_help or '').split())}"
    for parameter in command.params:
        words = getattr(parameter, "help", None)
        if words and not getattr(parameter, "hidden", False):
            yield f"  {' '.join(parameter.opts)}: {' '.join(words.split())}"
    for name, found in getattr(command, "commands", {}).items():
        if not found.hidden:
            yield from lines_of(found, f"{path} {name}")


def all_lines() -> Iterator[str]:
    for name, entry in Root.entries.items():
        if not entry.hidden:
            yield f"aiosched {name}: {entry.help}"
            yield from lines_of(typer.main.get_command(import_module(entry.module).app), f"aiosched {name}")


if __name__ == "__main__":
    print("\n".join(all_lines()))
