"""Errors that nobody foresaw, raised whenever a function works for one DAG: for the tests of quarantine."""

from __future__ import annotations

import contextlib
import inspect
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from aiosched.core.run.board import Board

IsMeant = Callable[[Sequence[Any], Mapping[str, Any]], bool]


class Broken(Exception):
    """What nobody foresaw."""


def is_about(found: Any, dag_id: str, keys: set[int], depth: int = 7) -> bool:
    """Whether an argument of a function belongs to the DAG, which has runs with these keys."""
    if isinstance(found, str):
        return found == dag_id
    if isinstance(found, int):
        return found in keys
    if isinstance(found, Board):
        return found.run.dag_id == dag_id
    if depth and isinstance(found, list | tuple | dict | set):
        members = [*found, *found.values()] if isinstance(found, dict) else list(found)
        return any(is_about(each, dag_id, keys, depth - 1) for each in members)
    for name in ("dag_id", "run_id", "key", "run", "spec", "row", "dag"):
        inner = getattr(found, name, None)
        if depth and inner is not None and not callable(inner) and is_about(inner, dag_id, keys, depth - 1):
            return True
    return False


@contextlib.contextmanager
def broken(owner: Any, name: str, dag_id: str = "bad", keys: Callable[[], set[int]] = set) -> Iterator[None]:
    """Let a function raise when it is called for one DAG, under this name of `owner` only."""
    original = getattr(owner, name)

    def raising(*args: Any, **options: Any) -> Any:
        if is_about((args, options), dag_id, keys()):
            raise Broken(f"{name} does not like {dag_id}")
        return original(*args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, raising)
        yield


@contextlib.contextmanager
def failing(function: types.FunctionType, is_meant: IsMeant) -> Iterator[None]:
    """Let a function raise when it is called with such arguments, under whatever name it is known.

    Its code is replaced, so that callers are reached which hold it in a table or have imported it.
    """
    original = function.__code__
    working = types.FunctionType(
        original, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    working.__kwdefaults__ = function.__kwdefaults__

    def call(*args: Any, **options: Any) -> Any:
        if is_meant(args, options):
            raise Broken(f"{function.__qualname__} does not like it")
        return working(*args, **options)

    function.__code__ = _calling(call, original.co_freevars)
    try:
        yield
    finally:
        function.__code__ = original


def _calling(call: Callable[..., Any], free: Sequence[str]) -> types.CodeType:
    """The code of a function that calls another one with all its arguments; it has the same free variables."""
    names = ", ".join(f"{name}=None" for name in free)
    lines = [f"def outer({names}):", "    def stub(*args, **options):"]
    lines += [f"        {name}" for name in free]
    lines += ["        return '_'.call(*args, **options)", "    return stub"]
    scope: dict[str, Any] = {}
    exec("\n".join(lines), scope)
    code: types.CodeType = scope["outer"]().__code__
    target = types.SimpleNamespace(call=call)
    return code.replace(co_consts=tuple(target if const == "_" else const for const in code.co_consts))


def functions_of(module: types.ModuleType) -> dict[str, types.FunctionType]:
    """The functions and methods that are defined in a module, by qualified name; those in functions are not reached."""
    found: dict[str, types.FunctionType] = {}
    for value in vars(module).values():
        for inner in vars(value).values() if inspect.isclass(value) else [value]:
            function = _function_of(inner)
            if function is not None and function.__code__.co_filename == module.__file__:
                found.setdefault(f"{module.__name__}:{function.__qualname__}", function)
    return found


def _function_of(value: Any) -> types.FunctionType | None:
    if isinstance(value, property):
        value = value.fget
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    value = getattr(value, "func", value)  # of a cached property
    value = inspect.unwrap(value) if callable(value) else value
    return value if isinstance(value, types.FunctionType) else None
