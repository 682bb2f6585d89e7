"""Public names of a package that are imported on first use, so that `import aiosched` stays cheap."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def imported_on_demand(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of `package`: `homes` maps each public name to its module, below the package.

    An imported name stays in the package's namespace. Source: PEP 562.
    """
    namespace = vars(sys.modules[package])

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        namespace[name] = value = getattr(import_module(f".{homes[name]}", package), name)
        return value

    def names() -> list[str]:
        return sorted({*namespace, *homes})

    return get, names
