"""The parameters of functions and classes."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import Parameter

from aiosched.signatures import signature_of


def init_parameters(cls: type) -> list[Parameter]:
    """The parameters of the `__init__` of `cls`, without `self`."""
    return list(signature_of(cls.__init__).parameters.values())[1:]  # type: ignore[misc]


def named(parameters: Iterable[Parameter]) -> list[Parameter]:
    """Those that can be given by name."""
    return [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]


def takes_any_name(parameters: Iterable[Parameter]) -> bool:
    """Whether `**kwargs` is among them."""
    return any(p.kind is p.VAR_KEYWORD for p in parameters)
