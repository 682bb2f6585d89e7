"""Signatures of functions of others, whose annotations may name what is not there when they run."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable
from typing import Any, Final, get_type_hints

if sys.version_info >= (3, 14):
    from annotationlib import Format

    _OPTIONS: Final[dict[str, Any]] = {"annotation_format": Format.FORWARDREF}
else:
    _OPTIONS: Final[dict[str, Any]] = {}


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function. Raises ValueError and TypeError, as `inspect.signature`.

    Since Python 3.14 annotations are evaluated when they are asked for, and may name what only type checkers import:
    such a name stays a `ForwardRef`.
    """
    return inspect.signature(function, **_OPTIONS)


def types_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function by parameter, without those that name what is not there now."""
    try:
        return get_type_hints(function)
    except Exception:  # one of them cannot be evaluated: each by itself
        found = {}
        for name, parameter in signature_of(function).parameters.items():
            with contextlib.suppress(Exception):
                found[name] = _evaluated(parameter.annotation, function)
        return found


def _evaluated(annotation: Any, function: Callable[..., Any]) -> Any:
    if isinstance(annotation, str):
        return eval(annotation, getattr(inspect.unwrap(function), "__globals__", {}))  # noqa: S307  its own author's
    return annotation
