"""The line of the author's file that is responsible for a call: the innermost frame outside this package."""

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
    """File and line of `author_frame`; None when the stack has only frames of aiosched."""
    frame = author_frame()
    return Location(frame.f_code.co_filename, frame.f_lineno) if frame is not None else None


def executing_module() -> str | None:
    """The name of the innermost module whose top level is being executed."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "<module>":
            name = frame.f_globals.get("__name__")
            return name if isinstance(name, str) else None
        frame = frame.f_back
    return None
