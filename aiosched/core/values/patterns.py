"""Regular expressions that people write (of params, of selections): matched in time linear to the text. Pure.

RE2 has no backtracking, so no pattern and no text can hold the event loop up. What it cannot do in linear time it
refuses: backreferences and lookaround. `\\d`, `\\w` and `\\s` mean ASCII characters.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Final

LONGEST_PATTERN: Final = 1_000  # characters

_END: Final = re.compile(r"((?:^|[^\\])(?:\\\\)*)\\Z")  # as Python writes the end of the text


class PatternError(ValueError):
    """A text that is no regular expression, or one that cannot be matched in linear time; the message says why."""


@functools.lru_cache(maxsize=1_000)
def searcher(pattern: str) -> Callable[[str], bool]:
    """A function that says whether a text contains a match of `pattern`. Raises PatternError."""
    import re2

    if len(pattern) > LONGEST_PATTERN:
        raise PatternError(f"it has {len(pattern):,} characters, allowed are {LONGEST_PATTERN:,}")
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(_END.sub(r"\1\\z", pattern), options)
    except re2.error as error:
        (reason,) = error.args
        raise PatternError(_reason(reason.decode() if isinstance(reason, bytes) else str(reason))) from None
    except UnicodeEncodeError as error:
        raise PatternError(str(error)) from None
    return lambda text: compiled.search(text) is not None


def _reason(reason: str) -> str:
    if "invalid perl operator: (?" in reason:
        return f"{reason}: lookaround cannot be matched in linear time"
    if re.search(r"invalid escape sequence: \\[1-9]", reason):
        return f"{reason}: backreferences cannot be matched in linear time"
    return reason
