"""What somebody meant who typed a word that does not exist: a state, a command, a command of another group."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

from aiosched.errors import did_you_mean

_CHOICE: Final = re.compile(r"(?:Value error, )?('(?P<word>[^']*)' is not one of (?P<known>.+?)\.?)")
_NO_COMMAND: Final = re.compile(r"No such command '(?P<word>[^']*)'\.")
_MOST: Final = 3
MEANT: Final = {
    "dags clear": "runs clear",
    "dags report": "dags errors",
    "dags run": "dags trigger",
    "dags state": "runs show",
    "dags why": "why",
    "runs state": "runs show",
    "runs trigger": "dags trigger",
    "runs why": "why",
    "tasks failed-deps": "why",
    "tasks run": "tasks test",
    "tasks state": "tasks show",
    "tasks states": "runs show",
    "tasks why": "why",
}  # what has another name here: in Airflow, or in the reader's mind

MEANT_OPTIONS: Final = {
    "-s": ("--from", "--since"),
    "--start-date": ("--from", "--since"),
    "-e": ("--to", "--until"),
    "--end-date": ("--to", "--until"),
    "--dag-id": ("--dag",),
    "--tags": ("--tag",),
}  # Airflow's, and those that have them here


def with_suggestion(message: str) -> str:
    """The message about a wrong value, with the near ones if it lists what is possible."""
    found = _CHOICE.fullmatch(message)
    if found is None:
        return message
    near = did_you_mean(found["word"], re.findall(r"'([^']*)'", found["known"]))
    return f"{found[1].rstrip('.')}.{near}"


def with_command(message: str, group: str, groups: Mapping[str, Any]) -> str:
    """The message about a command that `group` does not have, with the one that does it, wherever it is."""
    found = _NO_COMMAND.fullmatch(message)
    if found is None:
        return message
    word = found["word"]
    meant = MEANT.get(f"{group} {word}")
    names = [meant] if meant else [f"{at} {name}" for name, at in _commands(groups) if name == word][:_MOST]
    return f"{message} Did you mean {' or '.join(map(repr, names))}?" if names else message


def near_options(name: str, possible: Iterable[str]) -> list[str]:
    """Those of the possible options whose words, without their dashes, are near `name`."""
    words = {option.lstrip("-"): option for option in possible}
    return [words[word] for word in get_close_matches(name.lstrip("-"), words)]


def meant_options(name: str, known: Iterable[str]) -> list[str]:
    """Those of the options of a command that have another name in Airflow: `name`."""
    return [option for option in MEANT_OPTIONS.get(name, ()) if option in set(known)]


def near_commands(word: str, groups: Mapping[str, Any]) -> list[str]:
    """What `word` can mean: `dags trigger` for `trigger`, `dags` for `dgas`."""
    known = dict.fromkeys(name for name, _ in _commands(groups))
    if word not in known and (near := get_close_matches(word, groups, n=1)):
        return near
    names = [word] if word in known else get_close_matches(word, list(known), n=1, cutoff=0.75)
    return [f"{group} {name}" for name, group in _commands(groups) if name in names][:_MOST]


def _commands(groups: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each visible command with its group."""
    for group, command in groups.items():
        for name, each in getattr(command, "commands", {}).items():
            if not each.hidden:
                yield name, group
