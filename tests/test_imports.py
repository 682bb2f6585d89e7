"""Imports go one way: no circle of files, of rooms, or of the folders of a room.

All imports count: those inside functions, those for type checkers, and those by a constant name in a string. What each
room may import is in the contracts of pyproject.toml.
"""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from importlib.util import resolve_name
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("authoring", "core", "db", "executors", "parsing", "scheduler", "web", "cli", "testing")
BY_NAME = ("import_module", "__import__", "provide")  # functions that import what a string names
IN_TEXT = re.compile(r"^ *(?:import|from) +(aiosched[\w.]*)", re.MULTILINE)

Graph = Mapping[str, Collection[str]]


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(path): path for path in (ROOT / "aiosched").rglob("*.py")}


def imports(source: str, package: str = "") -> Iterator[str]:
    """What a module imports, wherever in it: names of modules, or of something in a module. `package`: if it is one."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call):  # with a short name it can be a logger's, or that of a group of entry points
            is_import = imports_by_name(node)
            yield from (name for name in constants_of(node) if is_import or name.count(".") > 1)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from IN_TEXT.findall(node.value)  # of a program that is run by itself
        elif (
            isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict) and is_named(node.targets[0], "_MODULES")
        ):
            homes = [home.value for home in node.value.keys if isinstance(home, ast.Constant)]
            yield from (resolve_name(f".{home}", package) for home in homes)  # of names that are imported on first use


def constants_of(call: ast.Call) -> Iterator[str]:
    for given in (*call.args, *(keyword.value for keyword in call.keywords)):
        if isinstance(given, ast.Constant) and isinstance(given.value, str):
            yield given.value


def imports_by_name(call: ast.Call) -> bool:
    """Whether a call imports what a string names, also through another function."""
    return any(is_named(one, *BY_NAME) for one in (call.func, *call.args))


def is_named(node: ast.expr, *names: str) -> bool:
    return (node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else "") in names


@functools.cache
def imported_by(name: str) -> frozenset[str]:
    """The modules of ours that a module imports."""
    found = set(imports(MODULES[name].read_text(encoding="utf-8"), package=name))
    return frozenset({one if one in MODULES else one.rpartition(".")[0] for one in found} & MODULES.keys()) - {name}


EVERYTHING: Graph = {name: imported_by(name) for name in MODULES}


def files_of(room: str) -> Graph:
    names = {name for name in MODULES if name.startswith(f"aiosched.{room}.")}
    return {name: imported_by(name) & names for name in names}


def folders_of(files: Graph) -> Graph:
    """The folders whose files import a file of another folder. A package's own `__init__` stands in the package."""

    def folder(name: str) -> str:
        return name if MODULES[name].name == "__init__.py" else name.rpartition(".")[0]

    found: dict[str, set[str]] = {folder(name): set() for name in files}
    for name, imported in files.items():
        found[folder(name)] |= {folder(other) for other in imported} - {folder(name)}
    return found


def a_circle(graph: Graph) -> list[str]:
    """Nodes that can be reached from themselves; none when arrows go one way."""
    left = {node: set(after) for node, after in graph.items()}
    while ends := [node for node, after in left.items() if not after & left.keys()]:
        for node in ends:
            del left[node]
    return sorted(left)


def test_a_circle_is_found() -> None:
    assert a_circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert a_circle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "source",
    [
        "import a.b",
        "from a import b",
        "from a.b import c",
        "if TYPE_CHECKING:\n    from a.b import c",
        "def f():\n    from a.b import c",
        'importlib.import_module("a.b")',
        'import_module(name="a.b")',
        'x = __import__("a.b").c',
        'asyncio.to_thread(importlib.import_module, "a.b")',
        'provide("a.b", "c")',
        'found = find("aiosched.core.values.ids")',
        '_MODULES = {"b": "c"}',
        'PROGRAM = """\nimport sys\nimport aiosched.core.values.ids\n"""',
    ],
)
def test_every_import_is_found(source: str) -> None:
    assert {"a.b", "a.b.c", "aiosched.core.values.ids"} & set(imports(source, package="a"))


def test_no_files_import_each_other_in_a_circle() -> None:
    assert len(EVERYTHING) > 1000
    assert a_circle(EVERYTHING) == []


def test_no_rooms_import_each_other_in_a_circle() -> None:
    def room(name: str) -> str:
        return ".".join(name.split(".")[:2])

    rooms: dict[str, set[str]] = {}
    for name, imported in EVERYTHING.items():
        rooms.setdefault(room(name), set()).update({room(other) for other in imported} - {room(name)})

    assert a_circle(rooms) == []


@pytest.mark.parametrize("room", ROOMS)
def test_no_folders_of_a_room_import_each_other_in_a_circle(room: str) -> None:
    files = files_of(room)

    assert len(files) > 10
    assert a_circle(folders_of(files)) == []


def test_nobody_takes_a_name_from_the_root_of_the_package() -> None:
    # It knows all rooms, so every room would know every other through it.
    assert [name for name, imported in EVERYTHING.items() if "aiosched" in imported] == []


def test_only_the_root_says_where_functions_of_upper_rooms_are() -> None:
    callers = [
        name
        for name, path in MODULES.items()
        if "provide(" in (source := path.read_text(encoding="utf-8"))
        and any(isinstance(node, ast.Call) and is_named(node.func, "provide") for node in ast.walk(ast.parse(source)))
    ]

    assert callers == ["aiosched"]


def test_no_contract_has_an_exemption() -> None:
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]

    assert len(linter["contracts"]) > 20
    assert [one["name"] for one in linter["contracts"] if "ignore_imports" in one] == []


# Modules that are imported by a constant name in a string where a statement could be, and why it is none.
ALLOWED = {
    ("aiosched.executors.kubernetes.kube_api", "kubernetes_asyncio.client"): "slow, so in a thread",
    ("aiosched.executors.kubernetes.kube_api", "kubernetes_asyncio.config"): "mypy knows no types of it",
}


def test_no_other_module_is_imported_by_a_name_in_a_string() -> None:
    calls = {
        (name, node)
        for name, path in MODULES.items()
        if "import_" in (source := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and imports_by_name(node) and not is_named(node.func, "provide")
    }

    assert {(name, one) for name, call in calls for one in constants_of(call)} == ALLOWED.keys()
