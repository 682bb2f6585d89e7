"""What somebody meant who typed a word that does not exist: a state, a command, a command of another group."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

from aiosched.errors import did_you_mean

_CHOICE: Final = re.compile(r"(?:Value error, )?('(?P<word>[^']*)' is not one of (?P<known>.+?)\.?)")
_MOST: Final = 3


def with_suggestion(message: str) -> str:
    """The message about a wrong value, with the near ones if it lists what is possible."""
    found = _CHOICE.fullmatch(message)
    if found is None:
        return message
    near = did_you_mean(found["word"], re.findall(r"'([^']*)'", found["known"]))
    return f"{found[1].rstrip('.')}.{near}"


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
