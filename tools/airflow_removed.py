"""`python -m tools.airflow_removed WHEEL…`: writes which public names provider packages had once and have no more.

The wheels are some of each package, old and new; the newest one says what there is. A name is a class or function of a
module, or what a module that is there for old imports only gives on. Its successor is read from the last wheel that has
the name: the class that it derives from, the one that its deprecation names, or the same name in another module of the
newest wheel. Rows of `aiosched/airflow/tables/removed.tsv` that are there keep their successor and its parameters, so
that a person can correct them.
"""

from __future__ import annotations

import ast
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from aiosched.airflow.tables import DIFFERENT, FOLDER, NONE, REMOVED, REMOVED_COLUMNS, SAME

_INSIDE: Final = (
    "example_dags",
    "tests",
    "get_provider_info",
    "version_compat",
    "auth_manager",
    "www",
    "migrations",
    "google_vendor",
)
_PLACE: Final = re.compile(r"(airflow\.providers(?:\.\w+)+)\.(\w+)")
_NAMED: Final = re.compile(
    r"use[^.]*?[`'\"~. ]([A-Z]\w+(?:Operator|Sensor|Hook|Trigger|Link|Backend))\b", re.IGNORECASE
)


class Name(NamedTuple):
    """A public name of a module."""

    node: ast.ClassDef | ast.FunctionDef | None  # None: it is given on
    origin: tuple[str, str]  # where it is given on from: module, name; both empty: nowhere
    imports: dict[str, tuple[str, str]]  # of its module


Wheel = dict[str, dict[str, Name]]  # by module and name


def names_of(path: Path) -> Wheel:
    """The public names of each module of a wheel."""
    found: Wheel = {}
    with zipfile.ZipFile(path) as archive:
        for file in archive.namelist():
            parts = [part for part in file.removesuffix(".py").split("/") if part != "__init__"]
            if not file.startswith("airflow/providers/") or not file.endswith(".py"):
                continue
            if any(part.startswith("_") or part in _INSIDE for part in parts):
                continue
            tree = ast.parse(archive.read(file))
            found[".".join(parts)] = dict(_public(tree))
    for module, names in list(found.items()):
        if everything := names.pop("*", None):
            whole = found.get(everything.origin[0], {})
            found[module] = {name: Name(None, (everything.origin[0], name), {}) for name in whole} | names
    return found


def _public(tree: ast.Module) -> Iterator[tuple[str, Name]]:
    imports = {
        alias.asname or alias.name: (one.module, alias.name)
        for one in ast.walk(tree)
        if isinstance(one, ast.ImportFrom) and one.module and not one.level
        for alias in one.names
    }
    defined = [one for one in tree.body if isinstance(one, ast.ClassDef | ast.FunctionDef)]
    for one in defined:
        if not one.name.startswith("_"):
            yield one.name, Name(one, ("", ""), imports)
    if not defined and "deprecated" in ast.unparse(tree):
        for name, origin in imports.items():
            if origin[0].startswith("airflow.providers."):
                yield name, Name(None, origin, imports)


def successor(module: str, name: str, old: Name, here: Wheel, is_there: set[tuple[str, str]]) -> tuple[str, str]:
    """The home of what replaces a name, and the parameters of it that differ.

    `here` is the newest wheel of its package, `is_there` the names of all newest wheels.
    """
    if old.origin in is_there:
        return f"{old.origin[0]}:{old.origin[1]}", SAME
    if isinstance(old.node, ast.ClassDef):
        bases = [old.imports.get(base.id, (module, base.id)) for base in old.node.bases if isinstance(base, ast.Name)]
        is_thin = {one.name for one in ast.walk(old.node) if isinstance(one, ast.FunctionDef)} <= {"__init__"}
        if len(bases) == 1 and bases[0] in is_there and is_thin and "eprecat" in ast.unparse(old.node):
            return f"{bases[0][0]}:{bases[0][1]}", _parameters(old.node)
    same = [one for one, names in here.items() if name in names]
    if len(same) == 1:
        return f"{same[0]}:{name}", SAME
    text = "" if old.node is None else " ".join(_texts(old.node))
    for place in _PLACE.findall(text):
        if place in is_there and place != (module, name):
            return f"{place[0]}:{place[1]}", DIFFERENT
    for other in _NAMED.findall(text):
        homes = [one for one, names in here.items() if other in names]
        if len(homes) == 1 and other != name:
            return f"{homes[0]}:{other}", DIFFERENT
    return NONE, DIFFERENT


def _texts(node: ast.AST) -> Iterator[str]:
    """What is written about a deprecation: texts in calls and decorators, and docstrings."""
    for one in ast.walk(node):
        if isinstance(one, ast.keyword) and one.arg == "use_instead":
            yield f"use {ast.unparse(one.value)}"
        if isinstance(one, ast.Constant) and isinstance(one.value, str) and "use" in one.value.lower():
            yield one.value


def _parameters(node: ast.ClassDef) -> str:
    """Which parameters of the class have another name in its base; see `Removed.parameters`."""
    init = next((one for one in node.body if isinstance(one, ast.FunctionDef)), None)
    if init is None:
        return SAME
    own = [one.arg for one in (*init.args.args[1:], *init.args.kwonlyargs)]
    pairs = {}
    for one in ast.walk(init):
        if isinstance(one, ast.Call) and ast.unparse(one.func) == "super().__init__":
            for keyword in one.keywords:
                if keyword.arg and isinstance(keyword.value, ast.Name) and keyword.value.id in own:
                    pairs[keyword.value.id] = keyword.arg
        if isinstance(one, ast.Dict):
            for key, value in zip(one.keys, one.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(value, ast.Name) and value.id in own:
                    pairs[value.id] = f"hook_params.{key.value}"
    if set(own) - set(pairs):
        return DIFFERENT
    return " ".join(f"{old}={new}" for old, new in pairs.items() if old != new) or SAME


def rows(wheels: Iterable[Path]) -> list[tuple[str, ...]]:
    """The rows of the table, sorted."""
    versions: dict[str, list[tuple[tuple[int, ...], str, Path]]] = {}
    for path in wheels:
        package, version = path.name.split("-")[:2]
        numbers = tuple(int(part) for part in re.findall(r"\d+", version))
        versions.setdefault(package, []).append((numbers, version, path))
    read: dict[str, list[tuple[str, Wheel]]] = {}
    for package, found in versions.items():
        read[package] = [(version, names_of(path)) for _, version, path in sorted(found)]
    newest = {package: wheels[-1][1] for package, wheels in read.items()}
    there = {(one, each) for wheel in newest.values() for one, names in wheel.items() for each in names}
    kept = {tuple(row[:2]): row[2:4] for row in _table()}
    result = {}
    for package, found in read.items():
        for version, wheel in found[:-1]:
            for module, names in wheel.items():
                for name, old in names.items():
                    if name not in newest[package].get(module, {}) and not _is_given_on(package, module, name, newest):
                        home, parameters = kept.get((module, name)) or successor(
                            module, name, old, newest[package], there
                        )
                        result[module, name] = (module, name, home, parameters, version)
    return sorted(result.values())


def _is_given_on(package: str, module: str, name: str, newest: dict[str, Wheel]) -> bool:
    others: Any = newest[package].get(module, {}).values()
    return any(name in other.imports for other in others)


def _table() -> list[list[str]]:
    path = FOLDER / REMOVED
    return [line.split("\t") for line in path.read_text("utf-8").splitlines()[1:]] if path.exists() else []


if __name__ == "__main__":
    table = [REMOVED_COLUMNS, *rows(map(Path, sys.argv[1:]))]
    (FOLDER / REMOVED).write_text("".join("\t".join(row) + "\n" for row in table), encoding="utf-8")
    print(f"{len(table) - 1} names")
