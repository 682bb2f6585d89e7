"""Imports go one way: no circle of files, and no circle of the folders of a room, imports for type checkers included.

Contracts between the rooms are in pyproject.toml. An import by a name in a string would be seen by neither.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("authoring", "core", "db", "executors", "parsing", "scheduler", "web", "cli", "testing")

Graph = Mapping[str, Collection[str]]


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(path): path for path in (ROOT / "aiosched").rglob("*.py")}


@functools.cache
def imported_by(name: str) -> frozenset[str]:
    """The modules of ours that a module imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(MODULES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            parts = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            found |= {part if part in MODULES else node.module for part in parts.values()}
    return frozenset(found & MODULES.keys()) - {name}


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


@pytest.mark.parametrize("room", ROOMS)
def test_no_files_of_a_room_import_each_other_in_a_circle(room: str) -> None:
    files = files_of(room)

    assert len(files) > 10
    assert a_circle(files) == []


@pytest.mark.parametrize("room", ROOMS)
def test_no_folders_of_a_room_import_each_other_in_a_circle(room: str) -> None:
    assert a_circle(folders_of(files_of(room))) == []


# Modules that are imported by a name in a string, and why a statement would not do.
BY_NAME = {
    ("aiosched.airflow.finder", "aiosched.airflow.installed"): "only when somebody imports `airflow`",
    ("aiosched.airflow.finder", "aiosched.airflow.modules"): "only when somebody imports `airflow`",
    ("aiosched.authoring.dag.dag", "aiosched.executors.dag_test.dag_test"): "`dag.test()` reaches upwards",
    ("aiosched.authoring.tasks.operator", "aiosched.authoring.mapping.mapped"): "mapped tasks are operators",
    ("aiosched.executors.kubernetes.kube_api", "kubernetes_asyncio.client"): "of an extra, and slow: in a thread",
    ("aiosched.executors.kubernetes.kube_api", "kubernetes_asyncio.config"): "of an extra",
}


def imported_by_name(source: str) -> set[str]:
    """The constant names with which a module calls `import_module` or `__import__`, also through another function."""

    def is_import(node: ast.expr) -> bool:
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        return name in ("import_module", "__import__")

    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return {
        given.value
        for call in calls
        if any(is_import(one) for one in (call.func, *call.args))
        for given in (*call.args, *(keyword.value for keyword in call.keywords))
        if isinstance(given, ast.Constant) and isinstance(given.value, str)
    }


@pytest.mark.parametrize(
    "source",
    [
        'importlib.import_module("a.b")',
        'import_module(name="a.b")',
        'x = __import__("a.b").c',
        'asyncio.to_thread(importlib.import_module, "a.b")',
    ],
)
def test_an_import_by_a_constant_name_is_found(source: str) -> None:
    assert imported_by_name(source) == {"a.b"}


def test_no_other_module_is_imported_by_a_name_in_a_string() -> None:
    sources = {name: path.read_text("utf-8") for name, path in MODULES.items()}

    found = {
        (name, one)
        for name, source in sources.items()
        if "import_module" in source or "__import__" in source
        for one in imported_by_name(source)
    }

    assert found == BY_NAME.keys()
