"""Classes that files of Airflow import by name, and that have nothing of their own but the name and a meaning."""

from __future__ import annotations

from typing import Any


def define(space: dict[str, Any], base: type, **meanings: str) -> None:
    """Put classes derived from `base` into the names of a module, `globals()`; the meanings are their docstrings."""
    for name, meaning in meanings.items():
        space[name] = type(base)(name, (base,), {"__doc__": meaning, "__module__": space["__name__"]})
