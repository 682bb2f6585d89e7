"""The text of a failure: one line and a traceback without our own frames, both storable."""

from __future__ import annotations

import itertools
import json
import traceback
from pathlib import Path
from typing import Final

import msgspec

from aiosched.core.values.masking import secrets
from aiosched.core.values.messages import Outcome, Report, XComValue
from aiosched.core.values.texts import storable, without_escapes
from aiosched.errors import TaskSignal, text_of

_OURS: Final = str(Path(__file__).resolve().parents[2])
_LONGEST_REASON: Final = 500  # characters
_LONGEST_DETAILS: Final = 65_536  # characters


def presentable(error: BaseException) -> BaseException:
    """The exception, or an ordinary substitute if its class cannot be inspected."""
    try:
        isinstance(error, TaskSignal)
    except BaseException as problem:
        return RuntimeError(f"{_name(error)}: its class cannot be read ({_name(problem)})").with_traceback(
            error.__traceback__
        )
    return error


def reason_of(error: BaseException) -> str:
    """One line such as `ValueError: bad`, see `text_of`; only that for a TaskSignal. Without secrets and colours."""
    error = presentable(error)
    try:
        text = secrets.redact(without_escapes(text_of(error)))
    except BaseException:  # user code can raise anything
        text = "<its text cannot be read: __str__ raised>"
    text = " ".join(storable(text[: 2 * _LONGEST_REASON]).split())
    name = _name(error)
    line = text if isinstance(error, TaskSignal) and text else f"{name}: {text}" if text else name
    return line if len(line) <= _LONGEST_REASON else line[: _LONGEST_REASON - 3] + "..."


def details_of(error: BaseException) -> str:
    """The traceback with chained exceptions, without the frames of aiosched and secrets; at most 64 Ki characters."""
    try:
        summary = traceback.TracebackException.from_exception(error, compact=True)
        _drop_our_frames(summary)
        text = storable(secrets.redact("".join(summary.format())))
    except BaseException as problem:  # an exception class can run any code when it is inspected
        text = f"{_name(error)}: its traceback cannot be read ({_name(problem)})\n"
    if len(text) <= _LONGEST_DETAILS:
        return text
    half = _LONGEST_DETAILS // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"


def _name(error: BaseException) -> str:
    name: str = type.__getattribute__(type(error), "__name__")  # despite its metaclass
    return name


def storable_report(report: Report) -> Report:
    """The report in storable form: executors of other packages can report anything.

    Text that PostgreSQL cannot store is removed, and so are template fields that are not JSON; a value that is not JSON
    fails the attempt.
    """
    texts = (report.reason, report.details, report.hostname, report.map_label)
    xcoms = report.xcoms
    if any(texts) and not _is_storable("".join(filter(None, texts))):
        names = ("reason", "details", "hostname", "map_label")
        clean = {name: None if text is None else storable(text) for name, text in zip(names, texts, strict=True)}
        report = msgspec.structs.replace(report, **clean)
    if xcoms and not all(map(_is_storable, itertools.chain.from_iterable(xcoms))):
        xcoms = tuple(XComValue(storable(key), storable(value.replace("\0", "\\u0000"))) for key, value in xcoms)
        report = msgspec.structs.replace(report, xcoms=xcoms)
    if report.rendered is not None and _json_error(report.rendered) is not None:
        report = msgspec.structs.replace(report, rendered=None)
    for key, value in xcoms:
        if (error := _json_error(value)) is not None:
            reason = f"its executor reported a value for {key!r} that is not JSON: {error}"
            return msgspec.structs.replace(report, outcome=Outcome.FAILED, reason=reason, xcoms=(), stored_xcoms=())
    return report


def _json_error(text: str) -> str | None:
    """The error in a JSON text; lone surrogates, which only Python writes, are no error."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)  # validates without building objects
    except msgspec.DecodeError:
        try:
            json.loads(text, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            return str(error)
    return None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"JSON has no {name}")


def _is_storable(text: str) -> bool:
    if "\0" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


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


def timeout_reason(seconds: float) -> str:
    """The reason shown for an attempt that exceeded its execution_timeout."""
    return f"ran longer than its execution_timeout of {seconds:g} s"
