"""What JSON values may be, at every entrance: depth, numbers, text. Pure.

Everything behind the entrances relies on it: messages to workers hold integers of 64 bits, PostgreSQL holds no NUL and
no lone surrogates, and code that walks through a value must end. Size is limited where the value comes in.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from aiosched.core.values.secret_values import MARK, hidden
from aiosched.core.values.texts import a_type

MOST_DEPTH: Final = 64
LEAST_INTEGER: Final = -(2**63)
MOST_INTEGER: Final = 2**64 - 1

_NO_STRUCTURE: Final = bytes(set(range(256)) - set(b'[]{}"'))
_ESCAPES: Final = re.compile(rb"\\.")
_ONE_KIND: Final = bytes.maketrans(b"{}", b"[]")
_STRINGS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')
_LONG_NUMBER: Final = re.compile(rb"\d{19}")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_MARK: Final = f'"{MARK}"'.encode()
_LONG_INTEGER: Final = re.compile(rb"(?<![\d.eE+-])-?\d{19,}(?![\d.eE])")


class JsonProblem(NamedTuple):
    """What is wrong with a JSON value, and where: `path` like `conf["a"][3]`."""

    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path} {self.what}"


def find_problem(value: Any, path: str) -> JsonProblem | None:
    """The first thing that is wrong with a JSON value (dicts, lists, texts, numbers, booleans, None)."""
    if _is_plain(value, 1):
        return None
    waiting: list[tuple[Any, str, int]] = [(value, path, 1)]
    while waiting:
        each, where, depth = waiting.pop()
        if (what := _problem_of(each, depth)) is not None:
            return JsonProblem(where, what)
        waiting += reversed([(item, inner, depth + 1) for item, inner in _parts(each, where)])
    return None


def is_bounded(text: bytes) -> bool:
    """Whether a valid JSON text keeps to the bounds of depth and integers; fast enough for values of megabytes."""
    if text.count(b"[") + text.count(b"{") > MOST_DEPTH and _is_deep(text):
        return False
    if _LONG_NUMBER.search(text) is None:
        return True
    integers = _LONG_INTEGER.findall(_STRINGS.sub(b'""', text))
    return all(len(digits) <= 20 and LEAST_INTEGER <= int(digits) <= MOST_INTEGER for digits in integers)


def shown_json(text: str | bytes) -> Any:
    """The value of a stored JSON text, for people: secrets are `***`, and a note is what is nested too deeply.

    Such texts were stored by hand: no page fails because of them.
    """
    data = text.encode() if isinstance(text, str) else text
    if data.count(b"[") + data.count(b"{") > MOST_DEPTH and _is_deep(data):
        return {"not shown": f"this JSON value is nested more than {MOST_DEPTH} levels deep"}
    value = json.loads(text)
    return hidden(value) if _MARK in data else value


def shown_object(text: str | bytes) -> dict[str, Any]:
    """The same where an object belongs; a note takes the place of anything else."""
    found = shown_json(text)
    return found if isinstance(found, dict) else {"not an object": found}


def _is_deep(text: bytes) -> bool:
    """Whether brackets are nested more than MOST_DEPTH levels: each step removes the innermost pairs."""
    if b"\\" in text:
        text = _ESCAPES.sub(b"", text)
    brackets = _STRINGS.sub(b"", text.translate(_ONE_KIND, _NO_STRUCTURE).replace(b'""', b""))
    for _ in range(MOST_DEPTH):
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def _is_plain(value: Any, depth: int) -> bool:
    """Whether nothing is wrong with a value, without looking for what and where: most values are like that."""
    kind = type(value)
    if kind is str:
        return "\0" not in value and (value.isascii() or _SURROGATE.search(value) is None)
    if kind is int:
        return bool(LEAST_INTEGER <= value <= MOST_INTEGER)
    if kind is dict:
        return depth <= MOST_DEPTH and all(
            type(key) is str and _is_plain(key, depth) and _is_plain(item, depth + 1) for key, item in value.items()
        )
    if kind is list or kind is tuple:
        return depth <= MOST_DEPTH and all(_is_plain(item, depth + 1) for item in value)
    return value is None or kind is bool or (kind is float and math.isfinite(value))


def _parts(value: Any, path: str) -> Iterator[tuple[Any, str]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield key, f"the key {key!r:.80} of {path}"
            yield item, f"{path}[{key!r:.80}]"
    elif isinstance(value, list | tuple):
        yield from ((item, f"{path}[{number}]") for number, item in enumerate(value))


def _problem_of(value: Any, depth: int) -> str | None:
    match value:
        case str():
            if "\0" in value:
                return "has a NUL character, which cannot be stored: remove it"
            if not value.isascii() and _SURROGATE.search(value) is not None:
                return "has half of a surrogate pair, which is not Unicode: decode or replace it"
        case bool() | None:
            pass
        case int():
            if not LEAST_INTEGER <= value <= MOST_INTEGER:
                return "is an integer of more than 64 bits: give it as text"
        case float():
            if not math.isfinite(value):
                return f"is {value}, which JSON cannot hold: give null or text"
        case dict() | list() | tuple() | Mapping():
            if depth > MOST_DEPTH:
                return f"is nested more than {MOST_DEPTH} levels deep: give it as text"
        case _:
            return f"is {a_type(value)}, which JSON cannot hold"
    return None
