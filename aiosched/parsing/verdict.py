"""Describes how a child ended to the author of the DAG file. Pure.

Source: docs/architecture.md, "From a file to a version".
"""

from __future__ import annotations

import re
import signal
from typing import Final

import msgspec

from aiosched.core.graph.spec import decode_spec, encode_spec
from aiosched.parsing.code_frame import code_frame
from aiosched.parsing.killable import NOT_DONE, ChildEnding
from aiosched.parsing.limits import Limits
from aiosched.parsing.result import (
    MAX_OUTPUT_SHOWN,
    MAX_TRACEBACK,
    ChildAnswer,
    FileError,
    ParsedDag,
    ParsedFile,
    one_line,
    parsed_dag,
    shortened,
)
from aiosched.parsing.tracebacks import is_user_code
from aiosched.sizes import in_units

_SIGNAL_WORDS: Final = {
    signal.SIGSEGV: "segmentation fault",
    signal.SIGBUS: "bus error",
    signal.SIGABRT: "abort",
    signal.SIGFPE: "arithmetic error",
    signal.SIGILL: "illegal instruction",
    signal.SIGKILL: "from outside: perhaps the machine or the container ran out of memory",
    signal.SIGXCPU: "too much processor time",
}
# the format of faulthandler, `  File "/dags/a.py", line 3 in f`, innermost call first
_FRAME: Final = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+) in ', re.MULTILINE)


def parsed_file(
    ending: ChildEnding, *, name: str, path: str, digest: str, source: str, seconds: float, limits: Limits
) -> ParsedFile:
    """The outcome of parsing `path` (the imported file), whose child ended with `ending`."""
    answer = _answer(ending, limits)
    dags: tuple[ParsedDag, ...] = ()
    if isinstance(answer, ChildAnswer):
        error = answer.error
        try:
            dags = tuple(_checked(bytes(raw)) for raw in answer.dags)
        except msgspec.ValidationError as wrong:
            error = FileError(type="BadAnswer", message=one_line(f"The file's answer cannot be read: {wrong}"))
            dags = ()
        warnings, sources = answer.warnings, answer.sources
    else:
        error, warnings, sources = _with_crash_line(answer, ending, path=path, name=name, source=source), (), None
    if error is not None:
        error = _with_output(error, ending)
    return ParsedFile(
        name=name,
        digest=digest,
        seconds=seconds,
        source=shortened(source, limits.result),
        dags=dags,
        error=error,
        warnings=tuple(one_line(w) for w in warnings),
        sources=sources,
        data=answer.data if isinstance(answer, ChildAnswer) else {},
        reads_values=isinstance(answer, ChildAnswer) and answer.reads_values,
        unanswered=isinstance(answer, ChildAnswer) and answer.unanswered,
    )


def _answer(ending: ChildEnding, limits: Limits) -> ChildAnswer | FileError:
    if ending.answer_too_long:
        return FileError(type="ResultTooLarge", message=f"The file's answer is longer than {in_units(limits.result)}.")
    if ending.timed_out:
        return FileError(
            type="Timeout",
            message=f"The file was killed after {limits.file_timeout:g} s. Move slow work from the top level of the "
            "file into its tasks, or raise parsing.file_timeout.",
        )
    if ending.signal is not None:
        name = signal.Signals(ending.signal).name if ending.signal in set(signal.Signals) else f"signal {ending.signal}"
        words = _SIGNAL_WORDS.get(signal.Signals(ending.signal)) if name.startswith("SIG") else None
        meaning = f" ({words})" if words else ""
        return FileError(
            type="Killed", message=f"The process was killed by {name}{meaning} while it imported the file."
        )
    try:
        if ending.answer:
            return _DECODER.decode(ending.answer)
    except msgspec.DecodeError as wrong:
        return FileError(type="BadAnswer", message=one_line(f"The file's answer cannot be read: {wrong}"))
    if ending.status == NOT_DONE:
        return FileError(
            type="NotImported",
            message="aiosched could not prepare or report the import of this file; what it printed says why. "
            "Unless the file closes descriptors or changes its process, this is a bug in aiosched: please report it.",
        )
    return FileError(
        type="Exited",
        message=f"The process ended with status {ending.status} before the file was imported: the file called "
        f"os._exit({ending.status}), or closed descriptors that it does not own.",
    )


def _checked(document: bytes) -> ParsedDag:
    """The DAG of an untrusted document, from a process that ran user code: decoded and encoded again."""
    spec = decode_spec(document)
    return parsed_dag(encode_spec(spec), spec)


def _with_crash_line(error: FileError, ending: ChildEnding, *, path: str, name: str, source: str) -> FileError:
    """Point `error` at the line of the file named in the crash dump, if there is one."""
    dump = ending.output.decode("utf-8", "replace")
    line = next((int(found["line"]) for found in _FRAME.finditer(dump) if found["file"] == path), None)
    if line is None:
        return error
    return msgspec.structs.replace(error, line=line, code_frame=code_frame(source, line=line, file=name))


def _with_output(error: FileError, ending: ChildEnding) -> FileError:
    """Attach the output of the file."""
    printed = _without_own_frames(ending.output.decode("utf-8", "backslashreplace"))
    text = shortened(printed, MAX_OUTPUT_SHOWN).strip()
    if not text:
        return error
    cut = f" ({ending.lost_output} bytes more were dropped)" if ending.lost_output else ""
    traceback = f"{error.traceback or ''}\nThe file printed{cut}:\n{text}\n".lstrip()
    return msgspec.structs.replace(error, traceback=shortened(traceback, MAX_TRACEBACK + 2 * MAX_OUTPUT_SHOWN))


def _without_own_frames(text: str) -> str:
    """`text` without the part of a crash dump that shows our own frames of the import."""
    kept, below = [], False
    for line in text.splitlines():
        frame = _FRAME.match(line)
        below = frame is not None and (below or not is_user_code(frame["file"]))
        if not below:
            kept.append(line)
    return "\n".join(kept)


_DECODER: Final = msgspec.json.Decoder(ChildAnswer)
