"""Regular expressions without RE2: an automaton that is in all its states at once, so in time linear to the text. Pure.

Python's parser reads the pattern, and what only backtracking can match is refused. It answers as RE2 does: `\\d`,
`\\w`, `\\s` and `\\b` are about ASCII, and `$` is the end of the text.
"""

from __future__ import annotations

import re
import re._constants as kinds  # type: ignore[import-not-found]
import re._parser as reader  # type: ignore[import-not-found]
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

_WORD: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_CLASSES: Final[dict[Any, frozenset[str]]] = {
    kinds.CATEGORY_DIGIT: frozenset("0123456789"),
    kinds.CATEGORY_WORD: _WORD,
    kinds.CATEGORY_SPACE: frozenset("\t\n\f\r "),
}
_OTHERS: Final[dict[Any, frozenset[str]]] = {
    kinds.CATEGORY_NOT_DIGIT: _CLASSES[kinds.CATEGORY_DIGIT],
    kinds.CATEGORY_NOT_WORD: _CLASSES[kinds.CATEGORY_WORD],
    kinds.CATEGORY_NOT_SPACE: _CLASSES[kinds.CATEGORY_SPACE],
}
_REFUSED: Final[dict[Any, str]] = {
    kinds.GROUPREF: "backreferences cannot be matched in linear time",
    kinds.GROUPREF_EXISTS: "backreferences cannot be matched in linear time",
    kinds.ASSERT: "lookaround cannot be matched in linear time",
    kinds.ASSERT_NOT: "lookaround cannot be matched in linear time",
}
_END: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\z")  # RE2's way to write \Z, which Python knows since 3.14

Test = Callable[[str], bool]


class CannotCompile(ValueError):
    """A text that is no regular expression, or one that the automaton cannot match; the message says why."""


class TooLarge(CannotCompile):
    """It has too many states."""


class _One(NamedTuple):
    """One character that passes the test."""

    test: Test


class _Split(NamedTuple):
    """Go on at several states."""

    to: tuple[int, ...]


class _At(NamedTuple):
    """A condition on the place: see `_holds`."""

    where: Any


class Automaton:
    """A compiled pattern. Raises CannotCompile, and TooLarge with more than `most` states."""

    def __init__(self, pattern: str, *, most: int) -> None:
        try:
            tree = reader.parse(_END.sub(r"\1\\Z", pattern), re.ASCII)
        except (re.error, OverflowError, RecursionError) as error:
            raise CannotCompile(str(error)) from None
        self._flags = tree.state.flags
        self._most, self._work = most, 0
        self._states: list[_One | _Split | _At | None] = []  # None: matched
        self._sequence(tree, self._flags)
        self._add(None)

    @property
    def programsize(self) -> int:
        """The number of states."""
        return len(self._states)

    def search(self, text: str) -> object | None:
        """Something if the text contains a match, else None."""
        active: set[int] = set()
        for place in range(len(text) + 1):
            reached, waiting = set[int](), [0, *active]
            while waiting:
                state = waiting.pop()
                if state in reached:
                    continue
                reached.add(state)
                match self._states[state]:
                    case None:
                        return text
                    case _Split(to):
                        waiting.extend(to)
                    case _At(where) if _holds(where, text, place):
                        waiting.append(state + 1)
            if place < len(text):
                letter = text[place]
                active = {
                    state + 1 for state in reached if isinstance(one := self._states[state], _One) and one.test(letter)
                }
        return None

    def _add(self, state: _One | _Split | _At | None) -> int:
        if len(self._states) >= self._most:
            raise TooLarge("it has too many states")
        self._states.append(state)
        return len(self._states) - 1

    def _sequence(self, nodes: Iterable[tuple[Any, Any]], flags: int) -> None:
        self._work += 1  # of repetitions of nothing, which add no state
        if self._work > 10 * self._most:
            raise TooLarge("it repeats too often")
        for kind, value in nodes:
            self._node(kind, value, flags)

    def _node(self, kind: Any, value: Any, flags: int) -> None:
        if kind in _REFUSED:
            raise CannotCompile(_REFUSED[kind])
        if kind is kinds.SUBPATTERN:
            _, added, removed, inner = value
            self._sequence(inner, (flags | added) & ~removed)
        elif kind is kinds.BRANCH:
            self._branches(value[1], flags)
        elif kind in (kinds.MAX_REPEAT, kinds.MIN_REPEAT):
            least, most, inner = value
            self._repeat(least, most, inner, flags)
        elif kind is kinds.AT:
            self._add(_At(_place(value, flags)))
        else:
            self._add(_One(_test(kind, value, flags)))

    def _branches(self, branches: Iterable[Any], flags: int) -> None:
        split = self._add(_Split(()))
        starts, ends = [], []
        for branch in branches:
            starts.append(len(self._states))
            self._sequence(branch, flags)
            ends.append(self._add(_Split(())))
        self._states[split] = _Split(tuple(starts))
        for end in ends:
            self._states[end] = _Split((len(self._states),))

    def _repeat(self, least: int, most: Any, inner: Any, flags: int) -> None:
        for _ in range(least):
            self._sequence(inner, flags)
        if most is kinds.MAXREPEAT:
            split = self._add(_Split(()))
            self._sequence(inner, flags)
            self._add(_Split((split,)))
            self._states[split] = _Split((split + 1, len(self._states)))
            return
        splits = []
        for _ in range(most - least):
            splits.append(self._add(_Split(())))
            self._sequence(inner, flags)
        for split in splits:
            self._states[split] = _Split((split + 1, len(self._states)))


def _test(kind: Any, value: Any, flags: int) -> Test:
    """What one character has to pass."""
    if kind is kinds.ANY:
        return (lambda _: True) if flags & re.DOTALL else (lambda letter: letter != "\n")
    if kind in (kinds.LITERAL, kinds.NOT_LITERAL):
        named = {chr(value), chr(value).swapcase()} if flags & re.IGNORECASE else {chr(value)}
        return named.__contains__ if kind is kinds.LITERAL else (lambda letter: letter not in named)
    if kind is kinds.RANGE:
        first, last = map(chr, value)
        if flags & re.IGNORECASE:
            return lambda letter: first <= letter <= last or first <= letter.swapcase() <= last
        return lambda letter: first <= letter <= last
    if kind is kinds.CATEGORY and value in _CLASSES:
        members = _CLASSES[value]
        return lambda letter: letter in members
    if kind is kinds.CATEGORY and value in _OTHERS:
        others = _OTHERS[value]
        return lambda letter: letter not in others
    if kind is kinds.IN:
        negated = value[0][0] is kinds.NEGATE
        tests = [_test(of, its, flags) for of, its in value[negated:]]
        return lambda letter: any(test(letter) for test in tests) is not negated
    raise CannotCompile(f"{str(kind).lower()} cannot be matched in linear time")


def _place(where: Any, flags: int) -> Any:
    if flags & re.MULTILINE:
        return {kinds.AT_BEGINNING: kinds.AT_BEGINNING_LINE, kinds.AT_END: kinds.AT_END_LINE}.get(where, where)
    return where


def _holds(where: Any, text: str, place: int) -> bool:
    """Whether a condition is met between two characters."""
    if where in (kinds.AT_BEGINNING, kinds.AT_BEGINNING_STRING):
        return place == 0
    if where in (kinds.AT_END, kinds.AT_END_STRING):
        return place == len(text)
    if where is kinds.AT_BEGINNING_LINE:
        return place == 0 or text[place - 1] == "\n"
    if where is kinds.AT_END_LINE:
        return place == len(text) or text[place] == "\n"
    is_edge = (place > 0 and text[place - 1] in _WORD) is not (place < len(text) and text[place] in _WORD)
    return is_edge is (where is kinds.AT_BOUNDARY)
