"""An exception of user code, told to people: one line, and a traceback without our own frames."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Final

from aiosched.core.masking import secrets
from aiosched.errors import TaskSignal

_OURS: Final = str(Path(__file__).resolve().parent.parent)
_LONGEST_REASON: Final = 500  # characters
_LONGEST_DETAILS: Final = 65_536  # characters


def reason_of(error: BaseException) -> str:
    """One line such as `ValueError: bad`; a signal of ours is its message alone. Without secrets."""
    try:
        text = secrets.redact(str(error))
    except Exception:
        text = "<its text cannot be had: __str__ raised>"
    text = " ".join(_storable(text[: 2 * _LONGEST_REASON]).split())
    name = type(error).__name__
    line = text if isinstance(error, TaskSignal) and text else f"{name}: {text}" if text else name
    return line if len(line) <= _LONGEST_REASON else line[: _LONGEST_REASON - 3] + "..."


def details_of(error: BaseException) -> str:
    """The traceback with chained exceptions, without the frames of aiosched and secrets; at most 64 Ki characters."""
    try:
        summary = traceback.TracebackException.from_exception(error, compact=True)
        _drop_our_frames(summary)
        text = _storable(secrets.redact("".join(summary.format())))
    except Exception as problem:  # an exception class may do anything when it is looked at
        text = f"{type(error).__name__}: its traceback cannot be had ({type(problem).__name__})\n"
    if len(text) <= _LONGEST_DETAILS:
        return text
    half = _LONGEST_DETAILS // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"


def _storable(text: str) -> str:
    """Without what UTF-8 and PostgreSQL cannot hold: lone surrogates and NUL."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _drop_our_frames(summary: traceback.TracebackException) -> None:
    waiting: list[traceback.TracebackException | None] = [summary]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.stack = traceback.StackSummary.from_list([f for f in one.stack if not f.filename.startswith(_OURS)])
        waiting += [one.__cause__, one.__context__, *(one.exceptions or ())]
