"""`airflow.utils.deprecation_tools`: old names of classes that warn when they are used."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


def add_deprecated_classes(
    module_imports: Mapping[str, Mapping[str, str]],
    package: str,
    override_deprecated_classes: Mapping[str, Mapping[str, str]] | None = None,
    extra_message: str | None = None,
) -> None:
    """Let old names of `package` answer with the class at its new place, and warn.

    `module_imports` maps a module below the package, or the package itself, to its old names and their new paths.
    """
    for name, homes in module_imports.items():
        full = package if name == package.rpartition(".")[2] or name == "__init__" else f"{package}.{name}"
        module = sys.modules.get(full)
        if module is None:
            module = sys.modules[full] = ModuleType(full)
        module.__dict__["__getattr__"] = _getter(full, homes, extra_message or "")


def _getter(module: str, homes: Mapping[str, str], extra: str) -> Any:
    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home, _, attribute = homes[name].rpartition(".")
        warnings.warn(f"{module}.{name} is {homes[name]} now. {extra}".strip(), DeprecationWarning, stacklevel=2)
        return getattr(import_module(home), attribute)

    return get
