"""The values of XComs in the processes that run the code of authors: only these import the classes of values.

How values are written: core/values/typed_json.py and typed_objects.py.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from aiosched.core.values.given_values import like, parts_of
from aiosched.core.values.typed_json import is_marked
from aiosched.core.values.typed_objects import named_parts as parts_by_name
from aiosched.core.values.typed_objects import register_codec, typed, untyped
from aiosched.errors import AioschedError

__all__ = [
    "DAG_MODULES",
    "as_default",
    "data_parts",
    "find_module",
    "named_parts",
    "read_data",
    "read_xcom",
    "register_codec",
    "write_data",
    "write_xcom",
]

DAG_MODULES: Final = "aiosched_dag_"


def read_xcom(text: str | bytes) -> Any:
    """The value of an XCom, or of a part of one, from its JSON. Raises AioschedError if it cannot be read here."""
    if not is_marked(text):
        return json.loads(text)
    try:
        return untyped(text, find_module)
    except AioschedError:
        raise
    except Exception as error:  # the classes of authors
        raise AioschedError(
            f"An XCom cannot be read: {error}. The task that pulls it needs the class or library as it was where the "
            "value was made; if it changed, clear the task that pushed it."
        ) from error


def write_xcom(value: Any) -> bytes:
    """The JSON of a value. Raises NotJson for one that cannot be given back."""
    return typed(value, find_module)


def write_data(value: Any) -> bytes:
    """The JSON of a value that people can also write: extras of assets, `conf`, variables. Raises NotJson."""
    return typed(value, find_module, objects=False)


def data_parts(value: Any) -> Any:
    """As `write_data`, not as text: dicts, lists, text and numbers. Raises NotJson."""
    return json.loads(write_data(value))


def named_parts(values: Mapping[str, Any]) -> dict[str, Any]:
    """Such parts of values by name, as in `conf` and extras: no name is a mark. Raises NotJson."""
    return parts_by_name(values, find_module)


def read_data(parts: Any) -> Any:
    """The value of such parts. What looks like a mark and is none stays as it is: anyone can have written it."""
    text = msgspec.json.encode(parts)
    if not is_marked(text):
        return parts
    try:
        return untyped(text, find_module, objects=False)
    except Exception:  # any text can be in it
        return parts


def as_default(given: Any, default: Any) -> Any:
    """A value that somebody gave a param, as the type of its default: text becomes a date, a list a set. Values that
    have a type of their own stay.

    Raises CannotConvert, and AioschedError for what the class of an author does not take.
    """
    if given is None or (parts := parts_of(default, find_module)) is default:
        return given
    return read_xcom(msgspec.json.encode(like(parts_of(given, find_module), parts)))


def find_module(name: str) -> Any:
    """The module with this name. That of a DAG file is found wherever the folder of DAGs is. Raises ImportError."""
    found = sys.modules.get(name)
    if found is not None:
        return found
    if name.startswith(DAG_MODULES):
        stem = name.removeprefix(DAG_MODULES).partition("_")[2]
        here = [
            module
            for other, module in list(sys.modules.items())
            if other.startswith(DAG_MODULES) and other.removeprefix(DAG_MODULES).partition("_")[2] == stem
        ]
        if len(here) == 1:
            return here[0]
        why = "of which several are imported here" if here else "which is not imported here"
        raise ImportError(f"it is defined in the DAG file {stem}, {why}: move it to a module")
    return importlib.import_module(name)
