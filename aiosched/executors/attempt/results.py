"""Converts returned and pushed values of a task to XComs: JSON text, validated and limited in size.

What comes back equal and of the same type is in core/values/typed_json.py and typed_objects.py; anything else is
refused with its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from aiosched.authoring.runtime.xcom_values import write_xcom
from aiosched.core.values.messages import RETURN_VALUE, XComValue
from aiosched.core.values.received_reports import TOTAL_FACTOR
from aiosched.core.values.texts import a_type
from aiosched.core.values.typed_json import NotJson, plain_text
from aiosched.errors import AioschedError

_LONGEST_KEY: Final = 512  # characters
_MOST_REMOTE: Final = "xcom.max_remote_bytes"
_REMEDY: Final = (
    "return data (numbers, text, dates, lists, dicts, dataclasses …), give its class serialize() and deserialize(), "
    "or push nothing with do_xcom_push=False"
)


class XComLimits(NamedTuple):
    """The sizes that XComs may have, as JSON in bytes; `most_remote` 0: none goes to remote storage."""

    most: int
    remote_from: int = 0
    most_remote: int = 0

    def is_remote(self, text: str) -> bool:
        """Whether a value goes to remote storage."""
        return bool(self.most_remote) and len(text.encode()) >= min(self.remote_from, self.most + 1)


class UnusableResult(AioschedError):
    """A task's value cannot become an XCom; the message says which, why, and how to fix it."""


def collect_xcoms(
    result: Any,
    pushed: Iterable[tuple[str, Any]],
    *,
    push_result: bool,
    multiple_outputs: bool,
    limit: int | XComLimits,
) -> tuple[XComValue, ...]:
    """The XComs of a successful attempt: pushed values first, then the returned value.

    A returned None is not pushed. With `multiple_outputs` a returned dict is pushed as a whole and by key. A later
    value for a key replaces an earlier one. Raises UnusableResult. Source: the semantics reference, section 27.
    """
    limits = limit if isinstance(limit, XComLimits) else XComLimits(limit)
    values: dict[str, str] = {}
    for key, value in pushed:
        values[_checked_key(key)] = encode_xcom(key, value, limits)
    if push_result and result is not None:
        values[RETURN_VALUE] = encode_xcom(RETURN_VALUE, result, limits)
        if multiple_outputs:
            if not isinstance(result, Mapping) or not all(isinstance(key, str) for key in result):
                raise UnusableResult(
                    f"multiple_outputs needs a dict with string keys, but the task returned {a_type(result)}: "
                    "return such a dict, or leave multiple_outputs out."
                )
            for key, value in result.items():
                values[_checked_key(key)] = encode_xcom(key, value, limits)
    _check_total([text for text in values.values() if not limits.is_remote(text)], limits.most, "core.max_xcom_bytes")
    _check_total([text for text in values.values() if limits.is_remote(text)], limits.most_remote, _MOST_REMOTE)
    return tuple(XComValue(key, text) for key, text in values.items())


def _check_total(texts: Sequence[str], limit: int, setting: str) -> None:
    total = sum(map(len, texts))
    if total > TOTAL_FACTOR * limit:
        raise UnusableResult(
            f"The XComs of this attempt have {total:,} bytes together, the limit is {TOTAL_FACTOR * limit:,}. "
            f"Store the data elsewhere and push a reference, or raise {setting}."
        )


def encode_xcom(key: str, value: Any, limit: int | XComLimits, *, write: Callable[[Any], bytes] = write_xcom) -> str:
    """`value` as JSON text within the limit; raises UnusableResult naming the place that it cannot hold."""
    try:
        encoded = plain_text(value) or write(value)
    except NotJson as error:
        raise UnusableResult(f"{key}{error.place} {error.what}{_hint(error)}.") from None
    except Exception as error:  # the class of an author
        raise UnusableResult(f"The XCom {key!r} cannot be JSON: {type(error).__name__}: {error}") from None
    limits = limit if isinstance(limit, XComLimits) else XComLimits(limit)
    most = limits.most_remote or limits.most
    if len(encoded) > most:
        remedy = f"or raise {_MOST_REMOTE}" if limits.most_remote else "set xcom.remote, or raise core.max_xcom_bytes"
        raise UnusableResult(
            f"The XCom {key!r} has {len(encoded):,} bytes, the limit is {most:,}. "
            f"Store the data elsewhere and push a reference, {remedy}."
        )
    return encoded.decode()


def _hint(error: NotJson) -> str:
    if error.what.startswith("is a coroutine"):
        return ": it was not awaited. Write `await` before the call that made it, in an `async def` task"
    return f": {_REMEDY}" if error.what.endswith("which JSON cannot hold") else ""


def _checked_key(key: Any) -> str:
    if not isinstance(key, str) or not key or len(key) > _LONGEST_KEY or "\0" in key:
        raise UnusableResult(f"An XCom key is a string of 1 to {_LONGEST_KEY} characters, not {key!r:.80}.")
    try:
        key.encode()
    except UnicodeEncodeError:
        raise UnusableResult(f"The XCom key {key!r:.80} has characters that are not Unicode: use others.") from None
    return key
