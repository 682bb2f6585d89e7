"""What aiosched does for each command of Airflow: `answers.toml`, read and applied to a call."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from aiosched.cli.airflow.commands import Call, read
from aiosched.cli.base.session import load

_FILE: Final = Path(__file__).with_name("answers.toml")
_PLACE: Final = re.compile(r"\{(?:--)?([\w-]+)\}")
_PLACEHOLDER: Final = "DAGS_FOLDER"  # for the DAGs folder, in Airflow 1.10 and 2
READ_BY_FUNCTION: Final = "@"
ENVIRONMENT: Final = "environment"
FOLDER: Final = "folder"
NO_EFFECT: Final = "~"
REFUSED: Final = "!"


class RefusedCall(Exception):
    """A call that is not answered; the message says what to do instead."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is done for a command: see the head of `answers.toml`."""

    do: str = ""
    by: str = ""
    instead: str = ""
    note: str = ""
    columns: str = ""
    more: str = ""
    otherwise: str = ""
    settings: bool = False
    modes: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def in_words(self) -> str:
        """What `do` says, for people; empty without it."""
        return f"aiosched {_PLACE.sub(lambda found: found[1].upper(), self.do)}" if self.do else ""

    def meaning(self, option: str) -> str | None:
        """What becomes of an option; None: nobody knows."""
        return self.options.get(option, _usual().get(option))


@cache
def _document() -> Mapping[str, Any]:
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


def _usual() -> Mapping[str, str]:
    found: Mapping[str, str] = _document()["options"]
    return found


@cache
def answer_of(command: str) -> tuple[str, Answer]:
    """The answer to a command, and the name that it has in newer versions. Raises KeyError."""
    document = _document()
    name = document["names"].get(command, command)
    if name not in document or name in {"options", "names"}:
        raise KeyError(command)
    return name, Answer(**document[name])


def modern(call: Call, answer: Answer) -> Call:
    """A call of Airflow 1.10 whose options say what to do, as the call of the newer command."""
    chosen = [mode for mode in answer.modes if mode in call.given]
    if len(chosen) > 1:
        raise RefusedCall(f"--{chosen[0]} and --{chosen[1]} exclude each other")
    target = answer.modes[chosen[0]] if chosen else answer.otherwise
    options = call.options()
    places: list[str] = []
    for mode in chosen:
        value = options.pop(mode)
        if value is not True:
            places += value[-1] if isinstance(value[-1], list) else value[-1:]
    if "conn-id" in options and target != "connections list":
        places += options.pop("conn-id")[-1:]
    return read(target, [*_words(options), *(["--", *places] if places else [])])


def _words(options: Mapping[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        for one in [None] if value is True else value:
            yield f"--{name}" if one is None else f"--{name}={one}"


@dataclass(frozen=True, slots=True)
class Translated:
    """A call in aiosched's words."""

    words: list[str]
    warnings: list[str]
    environment: Mapping[str, str]  # JSON objects


def translate(call: Call, answer: Answer) -> Translated:
    """What `do` of the answer says, for this call. Raises RefusedCall for an option that is refused."""
    options: list[str] = []
    warnings: list[str] = []
    environment: dict[str, str] = {}
    for name, value in call.options().items():
        meaning = answer.meaning(name)
        if meaning is None:
            raise RefusedCall(f"airflow {call.command} --{name} is not known here")
        if meaning.startswith(REFUSED):
            raise RefusedCall(f"airflow {call.command} --{name}: {meaning[1:]}")
        if meaning.startswith(NO_EFFECT):
            warnings.append(f"--{name} has no effect: {meaning[1:]}")
        elif meaning == FOLDER:
            options += _words({"dags": [str(folder_of(value[-1]))]})
        elif meaning == ENVIRONMENT:
            environment[name] = value[-1]
        elif meaning.startswith("--"):
            options += _words({meaning[2:]: value})
    command, places = _filled(answer.do.split(), call)
    return Translated([*command, *options, *(["--", *places] if places else [])], warnings, environment)


def folder_of(place: str) -> Path:
    """The DAGs folder of a call with --subdir: the one of the settings if the file or folder is in it, else its own."""
    usual: Path = load().settings.core.dags_folder
    path = Path(place.replace(_PLACEHOLDER, str(usual), 1))
    if path.absolute().is_relative_to(usual.absolute()):
        return usual
    return path.parent if path.is_file() else path


def _filled(template: Sequence[str], call: Call) -> tuple[list[str], list[str]]:
    """The words of the command, and its arguments by place; those that were not given are left out."""
    words: list[str] = []
    places: list[str] = []
    for word in template:
        if found := _PLACE.fullmatch(word):
            text = call.text(found[1].replace("_", "-"))
            places += [] if text is None else [text]
        else:
            words.append(word)
    return words, places
