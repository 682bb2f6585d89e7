"""`apply_defaults` of Airflow 1.10 and 2.0: default arguments apply to every operator, so it changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])


def apply_defaults(function: F) -> F:
    """The function itself."""
    return function
