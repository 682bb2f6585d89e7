"""Converts an exception into a `FileError` for the author of the DAG file.

Works in the child, right after the import: keeps the frames of user code, finds the line of the DAG file and draws the
code frame. Never raises, even for hostile exceptions.

Source: docs/architecture.md, "From a file to a version".
"""

from __future__ import annotations

import contextlib
import linecache
import os
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from aiosched.authoring.base.unknown import explained
from aiosched.authoring.dag.sources import OWN
from aiosched.errors import DagError, text_of
from aiosched.parsing.code_frame import code_frame
from aiosched.parsing.result import MAX_TRACEBACK, FileError, one_line, shortened


class CodePlace(NamedTuple):
    """The place of an error. Columns count characters from 1, the end is exclusive."""

    file: str
    line: int
    column: int | None = None
    end_column: int | None = None


def file_error(
    error: BaseException, *, path: str, root: str, kind: str | None = None, message: str | None = None
) -> FileError:
    """The error of the DAG file at `path` below `root`; `kind` and `message` replace the exception's own."""
    summary = _summary(error)
    for part in _chain(summary):
        user = [frame for frame in part.stack if is_user_code(frame.filename)]
        part.stack = traceback.StackSummary.from_list(user) if user or part is not summary else part.stack
    places = list(_places(error, summary))
    in_file = [p for p in places if p.file == path]
    below_root = [p for p in places if p.file.startswith(root + os.sep)] or in_file
    shown = below_root[-1] if below_root else None
    return FileError(
        type=kind or type(error).__name__,
        message=one_line(message or _message(error)),
        line=in_file[-1].line if in_file else None,
        traceback=shortened("".join(summary.format()), MAX_TRACEBACK),
        code_frame=_frame(shown, root) if shown else None,
    )


def _summary(error: BaseException) -> traceback.TracebackException:
    try:
        return traceback.TracebackException.from_exception(error)
    except Exception as problem:  # code of its class, as for the errors of a group
        unread = RuntimeError(f"The error cannot be shown whole: {type(problem).__name__} when it was read.")
        return traceback.TracebackException.from_exception(unread.with_traceback(error.__traceback__))


def is_user_code(file: str) -> bool:
    """Whether a frame of `file` belongs in a traceback for its author: not ours, not the import machinery's."""
    return not file.startswith((OWN, "<frozen "))


def _message(error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.msg:
        return str(error.msg)
    with contextlib.suppress(Exception):
        if text := text_of(error):
            return text if isinstance(error, DagError) else explained(text)
    return f"{type(error).__name__} without a message"


def _places(error: BaseException, summary: traceback.TracebackException) -> Iterator[CodePlace]:
    """The places from the outermost call to the error."""
    last: CodePlace | None = None
    for frame in summary.stack:
        if frame.lineno is None:
            continue
        one_liner = frame.end_lineno == frame.lineno
        column, end = (frame.colno, frame.end_colno) if one_liner else (None, None)
        line = linecache.getline(frame.filename, frame.lineno)
        last = CodePlace(frame.filename, frame.lineno, _characters(line, column), _characters(line, end))
        yield last
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        end = error.end_offset if error.end_lineno == error.lineno else None
        yield CodePlace(error.filename, error.lineno, error.offset or None, end or None)
    elif isinstance(error, DagError) and error.file and error.line and (error.file, error.line) != (last and last[:2]):
        yield CodePlace(error.file, error.line)  # not part of the frames


def _characters(line: str, offset: int | None) -> int | None:
    """Convert a frame's offset in UTF-8 bytes to a column in characters, from 1."""
    return None if offset is None else len(line.encode("utf-8", "replace")[:offset].decode("utf-8", "replace")) + 1


def _frame(place: CodePlace, root: str) -> str | None:
    source = "".join(linecache.getlines(place.file)) or _read(place.file)
    name = os.path.relpath(place.file, root) if place.file.startswith(root + os.sep) else place.file
    frame = code_frame(source, line=place.line, file=name, column=place.column, end_column=place.end_column)
    return None if frame is None else shortened(frame, MAX_TRACEBACK)


def _read(file: str) -> str:
    """Read the text of a file that Python could not decode."""
    try:
        return Path(file).read_bytes().decode("utf-8", "backslashreplace")
    except OSError:
        return ""


def _chain(summary: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    waiting, seen = [summary], set[int]()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        waiting += [p for p in (part.__cause__, part.__context__, *(part.exceptions or ())) if p is not None]
