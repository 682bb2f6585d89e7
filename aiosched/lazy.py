"""Names that are imported on first use: those of a package, and functions that a room calls of one above it.

`import aiosched` stays cheap by the first. By the second a room offers what needs a room above it (`dag.test()` needs
an executor) and imports nothing upwards: the package's root, which knows all rooms, says where the function is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def imported_on_demand(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of `package`: `modules` has the public names of each module, below the package.

    An imported name stays in the package's namespace. Source: PEP 562.
    """
    namespace = vars(sys.modules[package])
    homes = {name: module for module, names in modules.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        namespace[name] = value = getattr(import_module(f".{homes[name]}", package), name)
        return value

    def names() -> list[str]:
        return sorted({*namespace, *homes})

    return get, names


_providers: dict[str, str] = {}


def provide(module: str, function: str) -> None:
    """Let rooms below that of `module` call its `function`. The module is imported when that is called first."""
    _providers[function] = module


def provided(function: str) -> Callable[..., Any]:
    """The function of a room above the caller's, as the root has registered it with `provide`."""
    found: Callable[..., Any] = getattr(import_module(_providers[function]), function)
    return found
