"""Where in the author's files something was written: the first frame outside this package."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Final, NamedTuple

_NOT_THE_AUTHOR: Final = frozenset({"aiosched", "functools"})


class Location(NamedTuple):
    """A line of an author's file."""

    file: str
    line: int


def author_frame() -> FrameType | None:
    """The innermost frame of the caller's stack that does not belong to aiosched, nor to functools inside it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_THE_AUTHOR:
        frame = frame.f_back
    return frame


def author_location() -> Location | None:
    """File and line of `author_frame`; None when aiosched is all there is on the stack."""
    frame = author_frame()
    return Location(frame.f_code.co_filename, frame.f_lineno) if frame is not None else None


def executing_module() -> str | None:
    """Name of the module whose top level is being executed, looking outwards from the caller."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "<module>":
            name = frame.f_globals.get("__name__")
            return name if isinstance(name, str) else None
        frame = frame.f_back
    return None
