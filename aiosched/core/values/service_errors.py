"""Errors of services for running tasks, as names in messages and back."""

from __future__ import annotations

from typing import Final

from aiosched.errors import AioschedError, ExecutorError, NotFound, Refused, TimedOut

_KINDS: Final[dict[str, type[AioschedError]]] = {kind.__name__: kind for kind in (NotFound, Refused, TimedOut)}


def kind_of(error: Exception) -> str:
    """The name of a service's error in messages; empty for an error type that the caller does not know."""
    return next((name for name, kind in _KINDS.items() if isinstance(error, kind)), "")


def error_of_kind(error: str, kind: str) -> AioschedError:
    """The error to raise in the calling task."""
    return _KINDS.get(kind, ExecutorError)(error)
