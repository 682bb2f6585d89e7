"""Which settings are secret: part of their type, so that none can be forgotten in a list.

A field whose annotation carries a `Secrecy` is masked wherever settings are shown (sources.py), and its environment
variables are withheld from processes that run code of DAG authors (secret_environment.py).
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Final

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


class Secrecy(Enum):
    """How much of a value is secret."""

    WHOLE = "all of it"
    ADDRESS = "the password in an address"
    BACKENDS = "the options of backends, but not their kinds"
    NOTIFIERS = "the arguments of notifiers, but not their names and kinds"


SecretText = Annotated[str | None, Secrecy.WHOLE]
SecretAddress = Annotated[str | None, Secrecy.ADDRESS]


def secrecy_of(field: FieldInfo) -> Secrecy | None:
    """How much of the setting is secret; None: nothing."""
    return next((mark for mark in field.metadata if isinstance(mark, Secrecy)), None)


def split_keys(keys: str) -> list[str]:
    """Keys that are separated by commas."""
    return [key for part in keys.split(",") if (key := part.strip())]


_USER_INFO: Final = re.compile(r"(?<=://)(?P<user>[^:/?#]*):(?P<password>.*)@(?=[^@]*$)")
_PASSWORD_WORD: Final = re.compile(r"(?P<key>\bpassword=)(?:'[^']*'|[^&\s]*)")


def hide_password(dsn: str) -> str:
    """The address with `***` instead of its password."""
    return _PASSWORD_WORD.sub(r"\g<key>***", _USER_INFO.sub(r"\g<user>:***@", dsn))
