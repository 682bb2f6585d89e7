"""Secrets become `***` in everything that users see: logs, reasons, tracebacks, rendered fields.

Lives here: which names mark a secret, and the `Redactor` that knows the secrets of this process. Reading a connection
or a variable with such a name registers its secrets; for an attempt that reads none the cost is one comparison.

Does not live here: reading them (authoring/runtime/variables.py, authoring/runtime/connections.py) and
the places that redact (executors/attempt/logs.py, executors/attempt/runner.py, cli).
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, quote_plus

MASK: Final = "***"
SHORTEST: Final = 4  # characters; longer than the mask, so that redacting always ends
_MOST_ROUNDS: Final = 16  # of replacing in one text: a secret such as `**a` could take as many as the text has parts

_SENSITIVE: Final = re.compile(
    r"pass_?w|passphrase|passcode|secret|token|credential|authorization|keyfile_dict|service_account|cookie"
    r"|(^|_)pwd(_|$)|(^|_)pass(_phrase|_code|_key)?$|(api|access|account|private|encryption|signing|shared|fernet|master|ssh)_?keys?(_|$)"
)
# A URL with a password, a private key.
_SECRET_TEXT: Final = re.compile(r"://[^\s/:@]*:[^\s/@]+@|-----BEGIN [A-Z ]*PRIVATE KEY")
_GIVEN: Final = re.compile(r"(?<![\w.-])[\w.-]++(?=[\"']?\s*[:=])")  # the name in `name = value` and `name: value`
# Values that are in every log: masking them protects nothing and makes logs unreadable.
_COMMON: Final = frozenset(
    {
        "admin", "airflow", "aiosched", "critical", "debug", "default", "error", "false", "info", "localhost", "none",
        "null", "postgres", "postgresql", "python", "root", "test", "true", "unknown", "user", "warning",
    }
)  # fmt: skip


def is_sensitive(name: str) -> bool:
    """Whether the value with this name (of a variable, an extra, a field) is a secret, by the words of the name.

    >>> is_sensitive("stripe-api-key"), is_sensitive("DB_PASSWORD"), is_sensitive("keyboard")
    (True, True, False)
    """
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", unicodedata.normalize("NFKC", name))
    return _SENSITIVE.search(re.sub(r"\W", "_", spaced).lower()) is not None


def shown(value: Any, name: str = "") -> Any:
    """A variable's value, or a part of it, as people see it: secrets in it are `***`.

    Those are what has the name of a secret, also inside of JSON, and a text that gives something with such a name a
    value, has a URL with a password, or a private key.

    >>> shown("eu-west-1", "region"), shown('{"host": "db", "password": "x"}', "db"), shown("smtp://a:b@c", "mail")
    ('eu-west-1', '{"host": "db", "password": "***"}', '***')
    """
    if name and value not in (None, "") and is_sensitive(name):
        return MASK
    try:
        if isinstance(value, str):
            document = _document(value)
            if document is value:
                return MASK if _holds_secret(value) else value
            seen = shown(document)
            return value if seen == document and not _holds_secret(value) else json.dumps(seen, ensure_ascii=False)
        if isinstance(value, Mapping):
            return {key: shown(inner, str(key)) for key, inner in value.items()}
        return [shown(inner) for inner in value] if isinstance(value, list) else value
    except RecursionError:
        return MASK


def _holds_secret(text: str) -> bool:
    return _SECRET_TEXT.search(text) is not None or any(is_sensitive(name) for name in set(_GIVEN.findall(text)))


class Redactor:
    """Replaces registered secrets by `***`. Thread-safe.

    A secret is also found as encoded in a URL, in JSON, in a `repr` and, if it has several lines, line by line. Values
    shorter than four characters and words that are in every log (`true`, `localhost` …) are not secrets. Secrets stay
    registered for the life of the process.
    """

    __slots__ = ("_registered", "_words", "listener", "longest")

    def __init__(self) -> None:
        self._registered: dict[str, None] = {}
        self._words: tuple[str, ...] = ()  # longest first, so that a shorter one does not split it
        self.longest: int = 0  # characters
        self.listener: Callable[[Sequence[str]], None] | None = None  # is given all words before there are more

    def __bool__(self) -> bool:
        return bool(self._words)

    def register(self, value: Any) -> None:
        """From now on, every string and number in `value` (also in lists, dicts and JSON text) is a secret."""
        self.hide(word for text in _texts(value) for word in _spellings(text))

    def hide(self, words: Iterable[str]) -> None:
        """From now on, replace these words, and no other spellings of them."""
        self._registered.update(dict.fromkeys(words))  # one step, so another thread loses nothing by it
        while len(self._words) < len(self._registered):
            known = tuple(sorted(self._registered, key=lambda word: (-len(word), word)))
            if self.listener is not None:
                self.listener(known)
            self._words, self.longest = known, len(known[0])

    def clear(self) -> None:
        """Forget everything: for tests."""
        self._registered, self._words, self.longest = {}, (), 0

    def register_named(self, name: str, value: Any) -> None:
        """Register `value` if its name marks a secret; else the values with such names inside it."""
        if is_sensitive(name):
            self.register(value)
            return
        found = _document(value)
        if isinstance(found, Mapping):
            for key, inner in found.items():
                self.register_named(str(key), inner)
        elif isinstance(found, list | tuple | set | frozenset):
            for inner in found:
                self.register_named("", inner)

    def redact(self, text: str) -> str:
        """`text` without any registered secret; the same object if it has none."""
        words = self._words
        if not words:
            return text
        for _ in range(_MOST_ROUNDS):  # a mask can complete another secret with the text around it
            before = text
            for word in words:
                if word in text:
                    text = text.replace(word, MASK)
            if text is before:
                return text
        return MASK

    def redact_bytes(self, data: bytes) -> bytes:
        """As `redact`, for UTF-8; invalid bytes do not change."""
        if not self._words:
            return data
        return self.redact(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def redact_value(self, value: Any, name: str = "") -> Any:
        """A copy of plain data to display: values with a sensitive name are `***`, and so are secrets in strings.

        >>> Redactor().redact_value({"host": "db", "password": "x", "port": 1})
        {'host': 'db', 'password': '***', 'port': 1}
        """
        if name and value not in (None, "") and is_sensitive(name):
            return MASK
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            return {key: self.redact_value(inner, str(key)) for key, inner in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.redact_value(inner) for inner in value]
        return value


secrets: Final = Redactor()  # those of this process


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
        inner = _document(value)
        if inner is not value:
            yield from _texts(inner)
    elif isinstance(value, bytes):
        yield value.decode("utf-8", "replace")
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list | tuple | set | frozenset):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def _document(value: Any) -> Any:
    """The data in a string that is a JSON object or list, else `value` itself."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _spellings(secret: str) -> Iterator[str]:
    """The forms in which `secret` can occur in a text; empty if it is not a secret."""
    for text in {secret, secret.strip(), *(line.strip() for line in secret.splitlines())}:
        if len(text) >= SHORTEST and text.lower() not in _COMMON and text.strip("*"):
            yield from {
                text,
                quote(text, safe="", errors="replace"),
                quote_plus(text, errors="replace"),
                json.dumps(text)[1:-1],
                json.dumps(text, ensure_ascii=False)[1:-1],
                repr(text)[1:-1],
            }
