"""Regular expressions that people write (of params, of selections): matched in time linear to the text. Pure.

RE2 has no backtracking, so no pattern and no text can hold the event loop up. What it cannot do in linear time it
refuses: backreferences and lookaround. `\\d`, `\\w` and `\\s` mean ASCII characters. Where there is no RE2 (its package
has no wheel for the Python that runs), an automaton of our own does the same, more slowly (automaton.py).
"""

from __future__ import annotations

import functools
import importlib.util
import re
from typing import Any, Final

from aiosched.core.values.automaton import Automaton, CannotCompile, TooLarge

LONGEST_PATTERN: Final = 1_000  # characters
_LARGEST: Final = 5_000  # instructions: each character of a text takes at most that many steps
_MOST_MEMORY: Final = 2**19  # bytes while it is compiled
_PACE: Final = 300  # instructions of RE2 in a microsecond
_MOST_STATES: Final = 1_000  # without RE2
_PACE_OF_OURS: Final = 2
_TOO_LARGE: Final = "it is too large: its repetitions count as often as they repeat, so let them repeat less"

_END: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\Z")  # as Python writes the end of the text


class PatternError(ValueError):
    """A text that is no regular expression, or one that cannot be matched in linear time; the message says why."""


class Searcher:
    """Says whether a text contains a match of one pattern."""

    __slots__ = ("_found", "_pace", "_size")

    def __init__(self, compiled: Any, pace: int) -> None:
        self._found = compiled.search
        self._size: int = compiled.programsize
        self._pace = pace  # instructions in a microsecond, at least

    def __call__(self, text: str) -> bool:
        return self._found(text) is not None

    def steps(self, length: int) -> int:
        """How much work a text of that many characters is at most, in units of about a microsecond."""
        return 4 + length * self._size // self._pace


@functools.cache
def has_re2() -> bool:
    """Whether RE2 is installed."""
    return importlib.util.find_spec("re2") is not None


@functools.lru_cache(maxsize=1_000)
def searcher(pattern: str) -> Searcher:
    """What searches for a pattern. Raises PatternError."""
    if len(pattern) > LONGEST_PATTERN:
        raise PatternError(f"it has {len(pattern):,} characters, allowed are {LONGEST_PATTERN:,}")
    if not has_re2():
        return _searcher_without_re2(pattern)
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MOST_MEMORY
    try:
        compiled = re2.compile(_END.sub(r"\1\\z", pattern), options)
    except re2.error as error:
        (reason,) = error.args
        raise PatternError(_reason(reason.decode() if isinstance(reason, bytes) else str(reason))) from None
    except UnicodeEncodeError as error:
        raise PatternError(str(error)) from None
    if compiled.programsize > _LARGEST:
        raise PatternError(_TOO_LARGE)
    return Searcher(compiled, _PACE)


def _searcher_without_re2(pattern: str) -> Searcher:
    try:
        pattern.encode()
        return Searcher(Automaton(pattern, most=_MOST_STATES), _PACE_OF_OURS)
    except UnicodeEncodeError as error:
        raise PatternError(str(error)) from None
    except TooLarge:
        raise PatternError(_TOO_LARGE) from None
    except CannotCompile as error:
        raise PatternError(f"{error} (read without RE2, since the package google-re2 is not installed)") from None


def _reason(reason: str) -> str:
    if "pattern too large" in reason:
        return _TOO_LARGE
    if "invalid perl operator: (?" in reason:
        return f"{reason}: lookaround cannot be matched in linear time"
    if re.search(r"invalid escape sequence: \\[1-9]", reason):
        return f"{reason}: backreferences cannot be matched in linear time"
    return reason
