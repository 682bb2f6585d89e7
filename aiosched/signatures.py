"""Signatures of functions of others, whose annotations may name what is not there when they run."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

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


def type_in(annotation: Any) -> Any:
    """What an annotation says besides that it may be None."""
    if get_origin(annotation) in (Union, UnionType):
        others = [each for each in get_args(annotation) if each is not NoneType]
        return others[0] if len(others) == 1 else annotation
    return annotation


def can_be_given(kind: object) -> bool:
    """Whether an application can give values for this type: a class, or one like `Repository[User]`."""
    if not isinstance(kind, type) and get_origin(kind) is None:
        return False
    with contextlib.suppress(TypeError):
        hash(kind)
        return True
    return False


def _evaluated(annotation: Any, function: Callable[..., Any]) -> Any:
    if isinstance(annotation, str):
        return eval(annotation, getattr(inspect.unwrap(function), "__globals__", {}))  # noqa: S307  its own author's
    return annotation
