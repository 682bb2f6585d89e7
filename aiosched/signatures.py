"""Signatures of functions of others, whose annotations may name what is not there when they run."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any, Final

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
