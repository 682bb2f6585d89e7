"""The commands of Airflow 1.10, 2 and 3 with their arguments, and how a line of words is read as one of them.

`commands.tsv` is made of Airflow's wheels by `tools/airflow_commands.py`.
"""

from __future__ import annotations

import argparse
import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, NoReturn

TABLE: Final = Path(__file__).with_name("commands.tsv")
COLUMNS: Final = ("command", "generations", "arguments")

_ARGUMENT: Final = re.compile(r"(?P<flags>[^=?*!]+)(?P<value>=?)(?P<number>[?*]|\d*)(?P<required>!?)")

_RUNS: Final = frozenset({"execution-date", "execution-date-or-run-id", "logical-date", "logical-date-or-run-id"})


class Unreadable(Exception):
    """Words that are no call of a command. `usage`: what its arguments are."""

    def __init__(self, message: str, usage: str = "") -> None:
        super().__init__(message)
        self.usage = usage


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a command. `name` is one for all generations: `task-regex` for `-t/--task_regex`, too."""

    name: str
    flags: tuple[str, ...]  # empty: by its place
    has_value: bool
    number: str  # "?", "*", or how many values
    is_required: bool

    @classmethod
    def read(cls, text: str) -> Argument:
        """An argument of the table: `dag_id`, `-v/--verbose`, `-c/--conf=`, `-p/--pid=?`, `-r/--role=!`."""
        found = _ARGUMENT.fullmatch(text)
        if found is None:
            raise ValueError(text)
        flags = tuple(found["flags"].split("/")) if text.startswith("-") else ()
        name = (max(flags, key=len).lstrip("-") if flags else found["flags"]).replace("_", "-")
        if not flags and name in _RUNS:
            name = "run"
        return cls(name, flags, bool(found["value"]), found["number"], bool(found["required"]))

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Let a parser read it: values of options are lists, one element for each time that it is given."""
        number: Any = int(self.number) if self.number.isdecimal() else self.number or None
        if not self.flags:
            parser.add_argument(self.name, nargs=number, metavar=self.name.replace("-", "_"))
        elif self.has_value:
            parser.add_argument(
                *self.flags, dest=self.name, action="append", nargs=number, required=self.is_required, metavar="…"
            )
        else:
            parser.add_argument(*self.flags, dest=self.name, action="store_true", default=None)


@dataclass(frozen=True, slots=True)
class Form:
    """A command as some generations of Airflow have it."""

    command: str
    generations: tuple[str, ...]
    arguments: tuple[Argument, ...]

    def parser(self) -> _Parser:
        """What reads its arguments."""
        parser = _Parser(prog=f"airflow {self.command}", add_help=False)
        for argument in self.arguments:
            argument.add_to(parser)
        return parser


@dataclass(frozen=True, slots=True)
class Call:
    """A command with what was given: texts by place, lists of texts, True for a flag."""

    command: str
    given: Mapping[str, Any]
    places: frozenset[str]  # the names of arguments by place

    def text(self, name: str) -> str | None:
        """The value of an argument; of an option that was given twice the last one."""
        value = self.given.get(name)
        return value[-1] if isinstance(value, list) else value

    def options(self) -> dict[str, Any]:
        """What was given by name."""
        return {name: value for name, value in self.given.items() if name not in self.places}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Unreadable(f"{self.prog}: {message}", self.format_usage())


@cache
def forms() -> Mapping[str, Sequence[Form]]:
    """The forms of each command, the newest first."""
    found: dict[str, list[Form]] = {}
    with TABLE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            arguments = tuple(map(Argument.read, row["arguments"].split()))
            found.setdefault(row["command"], []).append(
                Form(row["command"], tuple(row["generations"].split()), arguments)
            )
    return {command: sorted(each, key=lambda form: form.generations, reverse=True) for command, each in found.items()}


def command_of(words: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """The command at the beginning of the words, None if they name none, and the words after it."""
    for number in (2, 1):
        name = " ".join(words[:number])
        if len(words) >= number and name in forms():
            return name, words[number:]
    return None, words


def read(command: str, words: Sequence[str]) -> Call:
    """The call of a command with these arguments: as the newest generation reads them that can. Raises Unreadable."""
    first: Unreadable | None = None
    for form in forms()[command]:
        try:
            given = vars(form.parser().parse_args(list(words)))
        except Unreadable as error:
            first = first or error
            continue
        places = frozenset(argument.name for argument in form.arguments if not argument.flags)
        return Call(command, {name: value for name, value in given.items() if value is not None}, places)
    raise first or Unreadable(f"airflow {command}: no such command")
