"""`python -m tools.airflow_commands WHEEL…`: writes which commands Airflow's command line has, with their arguments.

The wheels are those of `apache-airflow` 1.10 and 2, `apache-airflow-core` 3, and of the providers whose commands belong
to every installation: celery, fab and cncf.kubernetes. The code in them is read, not run. Commands with the same
arguments in several generations are one row of `aiosched/cli/airflow/commands.tsv`.
"""

from __future__ import annotations

import ast
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiosched.cli.airflow.commands import COLUMNS, TABLE

_PLACES: Final = {
    "airflow/bin/cli.py": ["airflow_commands"],
    "airflow/cli/cli_config.py": ["core_commands"],
    "airflow/providers/celery/cli/definition.py": ["CELERY_CLI_COMMANDS"],
    "airflow/providers/cncf/kubernetes/cli/definition.py": ["KUBERNETES_COMMANDS"],
    "airflow/providers/fab/cli/definition.py": [
        "USERS_COMMANDS", "ROLES_COMMANDS", "DB_COMMANDS", "SYNC_PERM_COMMAND", "PERMISSIONS_CLEANUP_COMMAND",
    ],
}  # fmt: skip
_GROUPS: Final = {
    "DB_COMMANDS": "fab-db", "KUBERNETES_COMMANDS": "kubernetes", "ROLES_COMMANDS": "roles", "USERS_COMMANDS": "users",
}  # fmt: skip
_OF_1_10: Final = ("subparsers", "deprecated_subparsers")  # of the class CLIFactory


@dataclass(frozen=True)
class Command:
    """A command or, with `inner`, a group of them."""

    name: str
    arguments: tuple[str, ...] = ()
    inner: tuple[Any, ...] = ()


class Reader:
    """Reads the definitions of one module; what it cannot read is None."""

    def __init__(self, names: dict[str, Any] | None = None) -> None:
        self.names = dict(names or {})

    def read(self, body: Iterable[ast.stmt]) -> None:
        """Take the definitions of a module's or a class's body."""
        for one in body:
            match one:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.names[name] = self.value(value)
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    self.names[name] = self.value(value)
                case ast.If(body=inner):
                    self.read(inner)
                case ast.ClassDef(name="CLIFactory", body=inner):
                    self.read(inner)
                case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[added])):
                    self.names[name] = (*(self.names.get(name) or ()), self.value(added))

    def value(self, node: ast.expr) -> Any:
        """The value of an expression."""
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self.names.get(name, name)
            case ast.Attribute(attr=name):
                return name
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return tuple(self._elements(elements))
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                first, second = self.value(left), self.value(right)
                return (*(first or ()), *(second or ())) if isinstance(first, tuple) else first
            case ast.Dict(keys=keys, values=values):
                return {self.value(k): self.value(v) for k, v in zip(keys, values, strict=True) if k is not None}
            case ast.Subscript(value=ast.Attribute(attr="args"), slice=key):
                return self.names["args"].get(self.value(key))
            case ast.Call(func=ast.Name(id=called), args=given, keywords=named):
                return self._call(called, given, {one.arg: self.value(one.value) for one in named})
        return None

    def _elements(self, nodes: Sequence[ast.expr]) -> Iterator[Any]:
        for node in nodes:
            if isinstance(node, ast.Starred):
                found = self.value(node.value)
                yield from found if isinstance(found, tuple) else ()
            else:
                yield self.value(node)

    def _call(self, called: str, given: Sequence[ast.expr], named: dict[str | None, Any]) -> Any:
        if called == "tuple":
            return self.value(given[0]) if given else ()
        if called == "ActionCommand":
            return Command(named["name"], tuple(named.get("args") or ()))
        if called == "GroupCommand":
            return Command(named["name"], inner=tuple(named["subcommands"] or ()))
        if called != "Arg":
            return None
        if len(given) > 2:
            named["action"] = self.value(given[2])
        return argument(self.value(given[0]) if given else named["flags"], named)


def argument(flags: Sequence[str], named: dict[str | None, Any]) -> str:
    """An argument as the table writes it: `dag_id`, `-v/--verbose`, `-c/--conf=`, with its number and `!` if needed."""
    number = str(named.get("nargs") or "")
    if not flags[0].startswith("-"):
        return f"{flags[0]}{number}"
    action = str(named.get("action") or "")
    if action == "BooleanOptionalAction":
        return f"{'/'.join(flags)} --no-{flags[-1].removeprefix('--')}"
    takes_value = not action.startswith("store_")
    return "/".join(flags) + (f"={number}" if takes_value else "") + ("!" if named.get("required") is True else "")


def commands(reader: Reader, names: Iterable[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The commands in the variables `names`, with their groups."""

    def flat(one: Command, before: str) -> Iterator[tuple[str, tuple[str, ...]]]:
        name = f"{before} {one.name}".strip()
        if one.inner:
            for inner in one.inner:
                yield from flat(inner, name)
        else:
            yield name, tuple(arg for arg in one.arguments if arg and "deprecation_warning" not in arg)

    for name in names:
        found = reader.names.get(name) or ()
        for one in found if isinstance(found, tuple) else (found,):
            yield from flat(one, _GROUPS.get(name, ""))
    for group in _OF_1_10:
        for one in reader.names.get(group) or ():
            args = [reader.names["args"].get(each) for each in one["args"] or ()]
            yield one["func"], tuple(arg for arg in args if arg)


def generations(wheel: Path) -> tuple[str, ...]:
    """The generations of Airflow to which a wheel belongs."""
    found = re.match(r"apache_airflow(?:_core)?-(\d)\.", wheel.name)
    return (found[1],) if found else ("2", "3")


def rows(wheels: Iterable[Path]) -> list[tuple[str, str, str]]:
    """The rows of the table, sorted by command. Providers come after the core of Airflow, whose arguments they use."""
    found: dict[tuple[str, str], list[str]] = {}
    shared = Reader()
    for wheel in sorted(wheels, key=lambda wheel: len(generations(wheel))):
        with zipfile.ZipFile(wheel) as archive:
            for place in _PLACES.keys() & set(archive.namelist()):
                reader = Reader(shared.names if "providers" in place else None)
                reader.read(ast.parse(archive.read(place)).body)
                if "_core" in wheel.name:
                    shared = reader
                for name, arguments in commands(reader, _PLACES[place]):
                    of = [one for one in generations(wheel) if one != "2" or not name.startswith("fab-db")]
                    found.setdefault((name, " ".join(arguments)), []).extend(of)
    table = [(name, " ".join(sorted(set(of))), arguments) for (name, arguments), of in found.items()]
    return sorted(table)


if __name__ == "__main__":
    table = [COLUMNS, *rows(map(Path, sys.argv[1:]))]
    TABLE.write_text("".join("\t".join(row) + "\n" for row in table), encoding="utf-8")
    print(f"{len(table) - 1} commands")
