"""The modules with which aiosched answers `import airflow`: made of the tables, each name resolved when it is used."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.machinery import ModuleSpec
from operator import attrgetter
from types import ModuleType
from typing import Any, Final

from aiosched.airflow import dialect, hints, plugin_modules
from aiosched.airflow.installed import ROOT, installed_airflow
from aiosched.airflow.successors import successor, with_removed
from aiosched.airflow.tables import MODULES, reexported, removed

PROVIDERS: Final = f"{ROOT}.providers"
_NEEDS_ITS_API_SERVER: Final = frozenset({f"{PROVIDERS}.standard.{kind}.hitl" for kind in ("operators", "triggers")})
EVERYTHING: Final = "*"  # a name of the tables: all public names of its home


class _Tables:
    """Loads a module of the tables."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return ModuleType(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        names = MODULES.get(module.__name__, {})
        space = module.__dict__
        space["__getattr__"] = lambda name: _resolve(module, names, name)
        space["__dir__"] = lambda: sorted({*space, *_listed(names), *_below(module.__name__)})
        space["__all__"] = _listed(names)
        if module.__name__ == ROOT:
            dialect.use()


def find(fullname: str, others: Sequence[Any]) -> ModuleSpec | None:
    """The spec of an Airflow module: of the tables, or of an installed package, which one of the other finders finds.

    None leaves it to the other finders. Raises ModuleNotFoundError that says what to do.
    """
    top = sys.modules.get(ROOT)
    if top is not None and getattr(top.__spec__, "loader", None) is not _LOADER and fullname != ROOT:
        return None  # somebody has imported another Airflow before
    in_tables = fullname in MODULES or bool(_below(fullname))
    installed = _installed(fullname, others) if _may_be_installed(fullname) else None
    if installed is not None and (not in_tables or installed.origin is not None):
        return with_removed(installed)
    if not in_tables and not _is_or_has_more(fullname):
        if (listed := plugin_modules.find(fullname)) is not None:
            return listed
        # Without a name, so that `from package import name` shows this message and not a shorter one.
        raise ModuleNotFoundError(hints.unknown(fullname) + plugin_modules.broken_for(fullname))
    spec = ModuleSpec(fullname, _LOADER, is_package=True)  # type: ignore[arg-type] # has the methods that are needed
    spec.submodule_search_locations = _folders(fullname)
    return spec


def _resolve(module: ModuleType, names: dict[str, str], name: str) -> Any:
    home = names.get(name)
    if home is not None:
        module.__dict__[name] = value = _at(home)
        return value
    if EVERYTHING in names and hasattr(whole := import_module(names[EVERYTHING]), name):
        return getattr(whole, name)
    if name in _below(module.__name__):
        return import_module(f"{module.__name__}.{name}")
    if again := reexported().get(module.__name__, {}).get(name):
        module.__dict__[name] = value = _at(again)
        return value
    if module.__name__.startswith(PROVIDERS) and name in removed().get(module.__name__, {}):
        module.__dict__[name] = value = successor(module.__name__, name)
        return value
    if _is_or_has_more(f"{module.__name__}.{name}"):
        return import_module(f"{module.__name__}.{name}")
    raise AttributeError(
        f"module {module.__name__!r} has no attribute {name!r}. {hints.elsewhere(module.__name__, name)}"
    )


def _listed(names: dict[str, str]) -> list[str]:
    """The names that `from module import *` gives."""
    listed = {name for name in names if not name.startswith("_") and name != EVERYTHING}
    if EVERYTHING in names:
        whole = import_module(names[EVERYTHING])
        listed.update(getattr(whole, "__all__", [name for name in vars(whole) if not name.startswith("_")]))
    return sorted(listed)


def _at(home: str) -> Any:
    """The object at `module:attribute`, or the module itself."""
    place, colon, attribute = home.partition(":")
    try:
        value: Any = import_module(place)
    except AttributeError as error:  # which would make the name look missing
        raise ImportError(f"{place} cannot be imported: {error}") from error
    if not colon:
        return value
    try:
        return attrgetter(attribute)(value)
    except AttributeError:
        if place.startswith(PROVIDERS):
            raise ModuleNotFoundError(hints.not_in_version(place, attribute)) from None
        raise


@cache
def _children() -> dict[str, frozenset[str]]:
    """The names of the modules directly below each package."""
    found: dict[str, set[str]] = {}
    for module in (*MODULES, *(f"{PROVIDERS}.{folder}.*" for folder in hints.NESTED)):
        while "." in module:
            package, _, child = module.rpartition(".")
            found.setdefault(package, set()).add(child)
            module = package
    return {package: frozenset(children) for package, children in found.items()}


def _below(package: str) -> frozenset[str]:
    return _children().get(package, frozenset())


def _is_or_has_more(fullname: str) -> bool:
    """Whether a module, or one below it, only gives on what is at home in others, or had names once."""
    tables = (reexported(), removed()) if fullname.startswith(f"{PROVIDERS}.") else (reexported(),)
    return any(fullname in each or any(module.startswith(f"{fullname}.") for module in each) for each in tables)


def _may_be_installed(fullname: str) -> bool:
    """Whether an installed package may answer: providers, and what other packages add to `airflow`."""
    if fullname in _NEEDS_ITS_API_SERVER:
        return False
    return fullname.startswith(f"{PROVIDERS}.") or (fullname not in MODULES and installed_airflow() is None)


def _installed(fullname: str, others: Sequence[Any]) -> ModuleSpec | None:
    """The spec by the first finder that has one: that of folders, or of an editable installation."""
    path = getattr(sys.modules.get(fullname.rpartition(".")[0]), "__path__", ())
    found: Iterator[ModuleSpec | None] = (finder.find_spec(fullname, [*path], None) for finder in others)
    return next(filter(None, found), None)


def _folders(fullname: str) -> list[str]:
    """The folders of that package on `sys.path`, in which installed modules of it lie."""
    inner = fullname.replace(".", os.sep)
    candidates = [os.path.join(entry, inner) for entry in sys.path if entry]  # noqa: PTH118 - many entries
    return [folder for folder in candidates if os.path.isdir(folder)]  # noqa: PTH112


_LOADER: Final = _Tables()
