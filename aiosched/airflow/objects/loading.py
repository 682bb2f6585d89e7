"""`airflow.utils.module_loading`: objects by their dotted path."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any


def import_string(dotted_path: str) -> Any:
    """The attribute of a module at `module.attribute`. Raises ImportError."""
    module, dot, name = dotted_path.rpartition(".")
    if not dot:
        raise ImportError(f"{dotted_path!r} does not look like a module path: write it as module.attribute.")
    try:
        return getattr(import_module(module), name)
    except AttributeError:
        raise ImportError(f"Module {module!r} has no attribute {name!r}.") from None


def qualname(o: object | Callable[..., Any], use_qualname: bool = False, exclude_module: bool = False) -> str:
    """The dotted path of a class, a function, or an object's class."""
    named = o if hasattr(o, "__qualname__") else type(o)
    name = str(named.__qualname__ if use_qualname else getattr(named, "__name__", named.__qualname__))
    return name if exclude_module else f"{named.__module__}.{name}"


def iter_namespace(ns: ModuleType) -> Iterator[Any]:
    """The modules directly in a namespace package, with their full names."""
    return pkgutil.iter_modules(ns.__path__, f"{ns.__name__}.")


def is_valid_dotpath(path: str) -> bool:
    """Whether the text has the form of a dotted path."""
    return isinstance(path, str) and bool(path) and all(part.isidentifier() for part in path.split("."))
