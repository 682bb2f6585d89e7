"""`airflow.utils.strings`."""

from __future__ import annotations

import secrets
import string
from typing import Final

__all__ = ["FALSE_LIKE_VALUES", "TRUE_LIKE_VALUES", "get_random_string", "to_boolean"]

TRUE_LIKE_VALUES: Final = {"on", "t", "true", "y", "yes", "1"}
FALSE_LIKE_VALUES: Final = {"off", "f", "false", "n", "no", "0"}


def get_random_string(length: int = 8, choices: str = string.ascii_letters + string.digits) -> str:
    """A random text of that length."""
    return "".join(secrets.choice(choices) for _ in range(length))


def to_boolean(astring: str | None) -> bool:
    """Whether the text says yes, in one of its usual forms."""
    return astring is not None and str(astring).strip().lower() in TRUE_LIKE_VALUES
