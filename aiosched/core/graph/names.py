"""Finds a trigger rule or weight rule by the name that an author wrote."""

from __future__ import annotations

import difflib
from enum import StrEnum
from typing import TypeVar

from aiosched.errors import DagError

R = TypeVar("R", bound=StrEnum)


def rule_named(kind: type[R], name: str, noun: str) -> R:
    """The member of `kind` with that name; raises DagError naming the nearest one. `noun` is for the message."""
    try:
        return kind(name)
    except ValueError:
        near = difflib.get_close_matches(str(name), list(kind), n=1)
        hint = f"did you mean {near[0]!s}?" if near else f"choose one of {', '.join(kind)}."
        raise DagError(f"There is no {noun} {name!r}; {hint}") from None
