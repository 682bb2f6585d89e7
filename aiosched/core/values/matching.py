"""How well a name matches what somebody types: the order of results of the search.

Lives here: the comparison, as pure functions. Does not live here: which names there are (db/finding/names.py).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

_BREAKS: Final = frozenset(" _-./:[")  # a new word of a name begins after one of these


class Match(IntEnum):
    """From the best to the worst."""

    WHOLE = 0
    BEGINNING = 1
    WORD = 2  # the beginning of a later word of the name
    PART = 3
    LETTERS = 4  # all letters, in this order, with others between them


def words_of(typed: str) -> tuple[str, ...]:
    """The words that are searched for."""
    return tuple(typed.lower().split())


def match(words: tuple[str, ...], name: str, context: str = "") -> Match | None:
    """How well a name matches all `words`: each is a part of it, or of `context`, such as the DAG of a task.

    At least one must be a part of the name itself; the best decides. Of a single word, the letters in this order are
    enough if there is no context. None: it does not match.
    """
    lowered, around = name.lower(), context.lower()
    found = [_match_word(word, lowered) for word in words]
    if any(each is None and word not in around for each, word in zip(found, words, strict=True)):
        single = len(words) == 1 and not context
        return Match.LETTERS if single and _in_order(words[0], lowered) else None
    return min((each for each in found if each is not None), default=None)


def _match_word(word: str, name: str) -> Match | None:
    place = name.find(word)
    if place < 0:
        return None
    if place == 0:
        return Match.WHOLE if len(word) == len(name) else Match.BEGINNING
    while place > 0:
        if name[place - 1] in _BREAKS:
            return Match.WORD
        place = name.find(word, place + 1)
    return Match.PART


def _in_order(letters: str, name: str) -> bool:
    rest = iter(name)
    return all(letter in rest for letter in letters)
