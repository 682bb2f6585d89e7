"""`write_python_script`: a program that calls a function elsewhere, such as in a container; and the serializers for it.

    python SCRIPT INPUT OUTPUT STRING_ARGS TERMINATION_LOG

INPUT holds pickled `args` and `kwargs`, or is empty; OUTPUT gets the pickled result. STRING_ARGS, lines of text for
the name `virtualenv_string_args`, may be a file that does not exist. An exception goes to TERMINATION_LOG and stderr.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

_PROGRAM = """\
import os
import sys
import traceback

import {pickling} as pickling

{source}


def __main():
    arguments = {{"args": [], "kwargs": {{}}}}
    if os.path.exists(sys.argv[1]) and os.path.getsize(sys.argv[1]):
        with open(sys.argv[1], "rb") as file:
            arguments = pickling.load(file)
    if len(sys.argv) > 3 and os.path.exists(sys.argv[3]):
        with open(sys.argv[3]) as file:
            globals()["virtualenv_string_args"] = [line.strip() for line in file]
    try:
        result = {name}(*arguments["args"], **arguments["kwargs"])
    except Exception:
        if len(sys.argv) > 4:
            with open(sys.argv[4], "w") as file:
                file.write(traceback.format_exc())
        raise
    with open(sys.argv[2], "wb") as file:
        pickling.dump(result, file)


if __name__ == "__main__":
    __main()
"""


def write_python_script(
    jinja_context: Mapping[str, Any], filename: str, render_template_as_native_obj: bool = False
) -> None:
    """Write the program for the function whose name and source are in `jinja_context`."""
    text = _PROGRAM.format(
        pickling=jinja_context.get("pickling_library", "pickle"),
        source=jinja_context["python_callable_source"],
        name=jinja_context["python_callable"],
    )
    Path(filename).write_text(text, encoding="utf-8")


class _Modules(Mapping[str, ModuleType]):
    """Modules by name, each imported when it is asked for."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __getitem__(self, name: str) -> ModuleType:
        if name not in self._names:
            raise KeyError(name)
        return import_module(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


SERIALIZERS: Final[Mapping[str, ModuleType]] = _Modules("pickle", "dill", "cloudpickle")
