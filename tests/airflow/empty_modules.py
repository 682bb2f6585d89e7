"""Empty modules in the place of libraries that are not installed: whatever is asked of them is an empty class."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_NEVER = frozenset({"airflow", "aiosched", "tests"}) | sys.stdlib_module_names


class EmptyKind(type):
    """The class of empty classes."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Empty

    def __getitem__(cls, _: object) -> Any:
        return cls

    def __or__(cls, _: object) -> Any:
        return cls

    def __ror__(cls, _: object) -> Any:
        return cls

    def __iter__(cls) -> Iterator[Any]:
        return iter(())


class Empty(metaclass=EmptyKind):
    """Has every attribute, and can be called, indexed and walked over."""

    def __new__(cls, *_: Any, **__: Any) -> Any:
        return object.__new__(cls)

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __class_getitem__(cls, _: object) -> Any:
        return cls

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Empty()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        is_decorator = len(args) == 1 and callable(args[0]) and not kwargs
        return args[0] if is_decorator else Empty()

    def __getitem__(self, _: object) -> Any:
        return Empty()

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __truediv__(self, _: object) -> Any:
        return self

    def to_dict(self) -> dict[str, Any]:
        """As Kubernetes' models have it."""
        return {}


class EmptyModule(ModuleType):
    """A module, and a package, with every name."""

    __path__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value: Any = Empty()
        if name.endswith(("Error", "Exception", "Warning", "Timeout")):
            value = type(name, (Exception,), {})
        elif not name.islower():
            value = EmptyKind(name, (Empty,), {"__module__": self.__name__})
        setattr(self, name, value)
        return value


class EmptyModules:
    """Finds what nobody else has found."""

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        """The spec of an empty module, except for names of Airflow, of aiosched and of the standard library."""
        if fullname.partition(".")[0] in _NEVER:
            return None
        return ModuleSpec(fullname, self, is_package=True)  # type: ignore[arg-type] # has the methods that are needed

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """An empty module."""
        return EmptyModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing."""
