"""What a backend of secrets is. A package adds one by the entry point group `aiosched.secrets`.

The entry point names a callable that takes the options of the table in the settings as keywords, and returns a
SecretBackend.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, Protocol, runtime_checkable

Kind = Literal["connection", "variable"]
KINDS: Final[tuple[Kind, ...]] = ("connection", "variable")


def as_kind(kind: str) -> Kind:
    """The kind by its name. Raises ValueError for one that there is not."""
    return KINDS[KINDS.index(kind)]


class SecretBackend(Protocol):
    """One place with secrets. Its methods block, and are called in several threads at once."""

    def get(self, kind: Kind, name: str) -> str | None:
        """The text of a variable, or a connection as URI or JSON object; None if there is none.

        `name` has no parts that lead out of a folder. Raises an exception if it is not known whether there is one.
        """
        ...


@runtime_checkable
class ListingBackend(Protocol):
    """A backend that can say which names it has."""

    def names(self, kind: Kind) -> Iterable[str]:
        """The names of what it has."""
        ...


@runtime_checkable
class UncachedBackend(Protocol):
    """A backend that is asked each time, since that is as quick as to keep its answers."""

    always_ask: Literal[True]


def below(prefix: str, name: str, separator: str = "/") -> str:
    """A name below a prefix; the name itself without one."""
    return f"{prefix.rstrip(separator)}{separator}{name}" if prefix else name


def short_name(prefix: str, path: str, separator: str = "/") -> str | None:
    """The name of a path below a prefix; None if it is not below it."""
    start = f"{prefix.rstrip(separator)}{separator}" if prefix else ""
    return path.removeprefix(start) if path.startswith(start) and path != start else None
