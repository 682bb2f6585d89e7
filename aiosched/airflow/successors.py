"""Names that newer provider packages do not have any more, as their successors.

An installed package that still has a name wins.
Source: `tables/removed.tsv`, docs/airflow.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.machinery import ModuleSpec, SourceFileLoader
from inspect import Parameter, Signature
from types import ModuleType
from typing import Any, Final

from aiosched.airflow import hints
from aiosched.airflow.tables import removed

_INNER: Final = "."  # of a parameter: `hook_params.role` is the entry `role` of `hook_params`


def successor(module: str, name: str) -> Any:
    """What stands for a removed name. Raises ModuleNotFoundError where nothing takes the same parameters."""
    row = removed()[module][name]
    place, _, attribute = row.home.partition(":")
    if not row.is_same_use:
        raise ModuleNotFoundError(hints.removed_for(module, name, row))
    try:
        found = getattr(import_module(place), attribute)
    except AttributeError:
        raise ModuleNotFoundError(hints.not_in_version(place, attribute)) from None
    return _translating(found, module, name, row.parameters) if row.parameters else found


def with_removed(spec: ModuleSpec) -> ModuleSpec:
    """The spec of an installed module, which then has also the names that it had once."""
    if spec.name in removed() and type(spec.loader) is SourceFileLoader:
        spec.loader = _Loader(spec.loader.name, spec.loader.path)
    return spec


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        module.__dict__["__getattr__"] = _getattr(module.__name__, module.__dict__.get("__getattr__"))


def _getattr(module: str, own: Callable[[str], Any] | None) -> Callable[[str], Any]:
    def get(name: str) -> Any:
        if own is not None:
            try:
                return own(name)
            except AttributeError:
                if name not in removed()[module]:
                    raise
        if name in removed()[module]:
            return successor(module, name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return get


def _translating(base: type, module: str, name: str, parameters: Mapping[str, str]) -> type:
    """A class with the old parameters, whose objects are of the class `base`. See `Removed.parameters`."""

    def __init__(self: Any, **given: Any) -> None:
        for old, new in parameters.items():
            outer, _, inner = new.partition(_INNER)
            value = given.pop(old, _default(old))
            if value is not None:
                given[outer] = {inner: value, **(given.get(outer) or {})} if inner else value
        base.__init__(self, **given)  # type: ignore[misc]

    old = [Parameter(each, Parameter.KEYWORD_ONLY, default=_default(each)) for each in parameters]
    mine = [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD), *old, Parameter("given", Parameter.VAR_KEYWORD)]
    __init__.__signature__ = Signature(mine)  # type: ignore[attr-defined]
    return type(base)(name, (base,), {"__init__": __init__, "__module__": module, "__doc__": base.__doc__})


def _default(parameter: str) -> str | None:
    """Of the id of a connection: that of the hook."""
    kind, ending, rest = parameter.partition("_conn_id")
    return f"{kind}_default" if ending and not rest else None
