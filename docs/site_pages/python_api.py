"""The directive `python-api`: the public names with their docstrings, sorted by what they are for."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Final

import aiosched
import aiosched.client
import aiosched.timetables
from site_pages.generated import Generated

# The part of the package in which a name lives, and the heading under which it is shown; the first that fits.
_PARTS: Final = (
    ("aiosched.scheduler", "The scheduler in your application"),
    ("aiosched.authoring.dag", "DAGs and groups"),
    ("aiosched.authoring.decorators", "Decorators"),
    ("aiosched.authoring.operators", "Operators"),
    ("aiosched.authoring.sensors", "Sensors"),
    ("aiosched.authoring.triggers", "Triggers"),
    ("aiosched.authoring.assets", "Assets"),
    ("aiosched.core.timetables", "Timetables and partitions"),
    ("aiosched.authoring.notifiers", "Notifiers"),
    ("aiosched.authoring.plugins", "Plugins"),
    ("aiosched.authoring.runtime", "While a task runs"),
    ("aiosched.authoring.tasks", "Tasks"),
    ("aiosched.errors", "Errors"),
)
_IN_PARTS: Final = ("Scheduler", "Client")  # classes with methods from bases of ours, which are not public
_REST: Final = "Other names"


def headings() -> dict[str, list[str]]:
    """The public names of `aiosched` under the heading of each part; each name once."""
    found: dict[str, list[str]] = {heading: [] for _, heading in _PARTS} | {_REST: []}
    for name in sorted(set(aiosched.__all__) - {"__version__"}):
        home = getattr(getattr(aiosched, name), "__module__", "") or ""
        found[next((heading for part, heading in _PARTS if home.startswith(part)), _REST)].append(name)
    return {heading: names for heading, names in found.items() if names}


class PythonApi(Generated):
    """A section for each heading."""

    def markdown(self) -> str:
        """Sections of names, each documented by its docstring."""
        lines: list[str] = []
        for heading, names in headings().items():
            lines += [f"## {heading}", "", *(_documented("aiosched", name) for name in names)]
        lines += ["## The REST API from Python", ""]
        lines += [_documented("aiosched.client", name) for name in aiosched.client.__all__]
        lines += ["## More timetables", ""]
        lines += [_documented("aiosched.timetables", name) for name in more_timetables()]
        return "\n".join(lines)


def more_timetables() -> list[str]:
    """Timetables that only `aiosched.timetables` has."""
    return [name for name in aiosched.timetables.__all__ if name not in aiosched.__all__]


def _documented(module: str, name: str) -> str:
    """The directive of autodoc that shows a name under its public address."""
    value = getattr(import_module(module), name)
    kind = "class" if inspect.isclass(value) else "function" if inspect.isroutine(value) else "data"
    inherited = "   :inherited-members:\n" if name in _IN_PARTS else ""
    return f"```{{eval-rst}}\n.. auto{kind}:: {module}.{name}\n{inherited}```\n"
