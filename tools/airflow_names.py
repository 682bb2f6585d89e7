"""`python -m tools.airflow_names WHEEL…`: writes which names Airflow's modules have, their own and from one another.

The wheels are those of `apache-airflow` of all generations, `apache-airflow-core` and `apache-airflow-task-sdk`. A
module that imports a name gives it to whoever imports it from there, and people do. Of those names the ones that
aiosched has go to `aiosched/airflow/tables/reexported.tsv`, with the same home as where they are defined. The names
that modules define go to `tests/airflow/public_names.tsv`: a test looks whether each is answered or has a remedy.
"""

from __future__ import annotations

import ast
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from aiosched.airflow.modules import EVERYTHING
from aiosched.airflow.tables import COLUMNS, FOLDER, MODULES, REEXPORTED

# What no DAG file, plugin or test of a project imports: servers, the command line, migrations, copies of libraries.
INSIDE: Final = (
    "airflow.alembic", "airflow.api_connexion", "airflow.api_fastapi", "airflow.api_internal", "airflow.cli",
    "airflow.contrib.example_dags", "airflow.example_dags", "airflow.executors", "airflow.jobs", "airflow.migrations",
    "airflow.providers", "airflow.sdk.api", "airflow.sdk.execution_time", "airflow.serialization", "airflow.ui",
    "airflow.www", "airflow.www_rbac",
)  # fmt: skip


class Origin(NamedTuple):
    """Where a name of a module comes from."""

    module: str
    name: str


Modules = dict[str, dict[str, Origin]]  # by module and name


def names_of(wheel: Path) -> Modules:
    """The names that each module of a wheel imports from others of Airflow."""
    modules: Modules = {}
    with zipfile.ZipFile(wheel) as archive:
        for file in archive.namelist():
            if file.startswith("airflow/") and file.endswith(".py"):
                parts = file.removesuffix(".py").split("/")
                package = parts if parts[-1] == "__init__" else parts[:-1]
                module = ".".join(part for part in parts if part != "__init__")
                package = [part for part in package if part != "__init__"]
                modules[module] = dict(_imported(ast.parse(archive.read(file)).body, package))
    return modules


def _imported(body: list[ast.stmt], package: list[str]) -> Iterator[tuple[str, Origin]]:
    here = ".".join(package)
    classes = {}
    for one in body:
        if isinstance(one, ast.ImportFrom):
            above = package[: len(package) - one.level + 1] if one.level else []
            source = ".".join([*above, *([one.module] if one.module else [])])
            if source.partition(".")[0] == "airflow":
                for alias in one.names:
                    classes[alias.asname or alias.name] = Origin(source, alias.name)
                yield from ((alias.asname or alias.name, Origin(source, alias.name)) for alias in one.names)
        elif isinstance(one, ast.ClassDef) and len(one.bases) == 1 and isinstance(one.bases[0], ast.Name):
            base = classes.get(one.bases[0].id)  # as `class S3Hook(NewS3Hook): …` with a warning
            if base is not None and base.name == one.name:
                yield one.name, base
        elif isinstance(one, ast.Assign) and isinstance(one.value, ast.Dict):
            yield from _named(one.value, here)
        elif isinstance(one, ast.Try):
            yield from _imported(one.body, package)
        elif isinstance(one, ast.If) and "TYPE_CHECKING" not in ast.dump(one.test):
            yield from _imported([*one.body, *one.orelse], package)


def _named(table: ast.Dict, package: str) -> Iterator[tuple[str, Origin]]:
    """What a package gives on by a table of names: of 1.10 `{module: [name]}`, of 2 and 3 `{name: place}`."""
    try:
        names = ast.literal_eval(table)
    except ValueError:
        return
    for key, value in names.items():
        if isinstance(value, list):
            yield from ((name, Origin(f"{package}.{key}", name)) for name in value if isinstance(name, str))
        elif isinstance(value, tuple) and len(value) > 1 and str(value[0]).startswith("."):
            yield key, Origin(f"{package}{value[0]}", str(value[1]))
        elif isinstance(value, str) and value.startswith("airflow."):
            module, _, name = value.rpartition(".")
            yield key, Origin(module, name)


def home_of(origin: Origin, modules: Modules) -> str | None:
    """Where aiosched has a name, however many modules it went through; None if it has none."""
    seen = set[Origin]()
    while origin not in seen:
        seen.add(origin)
        if home := MODULES.get(origin.module, {}).get(origin.name):
            return home
        if (module := f"{origin.module}.{origin.name}") in MODULES:
            return module
        if origin.module.startswith("airflow.providers."):
            return f"{origin.module}:{origin.name}"
        origin = modules.get(origin.module, {}).get(origin.name, origin)
    return None


def rows(wheels: Iterable[Path]) -> list[tuple[str, str, str]]:
    """The rows of the table, sorted. Where two generations disagree, the newer one (the later wheel) wins."""
    found: dict[tuple[str, str], str] = {}
    for wheel in wheels:
        modules = names_of(wheel)
        for module, names in modules.items():
            is_inside = module.startswith(INSIDE) or any(part.startswith("_") for part in module.split("."))
            if is_inside or EVERYTHING in MODULES.get(module, {}):
                continue
            for name, origin in names.items():
                is_new = name not in MODULES.get(module, {}) and f"{module}.{name}" not in MODULES
                if is_new and not name.startswith("_") and (home := home_of(origin, modules)):
                    found[module, name] = home
    return sorted((module, name, home) for (module, name), home in found.items())


def defined(wheel: Path) -> Modules:
    """The public names that each module of a wheel defines, but for those inside."""
    modules: Modules = {}
    with zipfile.ZipFile(wheel) as archive:
        for file in archive.namelist():
            module = ".".join(part for part in file.removesuffix(".py").split("/") if part != "__init__")
            is_inside = module.startswith(INSIDE) or any(part.startswith("_") for part in module.split("."))
            if file.startswith("airflow/") and file.endswith(".py") and not is_inside:
                names = set(_defined(ast.parse(archive.read(file)).body)) - {"STATICA_HACK", "T", "log", "logger"}
                modules[module] = {name: Origin(module, name) for name in names if not name.startswith("_")}
    return modules


def _defined(body: list[ast.stmt]) -> Iterator[str]:
    for one in body:
        if isinstance(one, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield one.name
        elif isinstance(one, ast.Assign):
            yield from (target.id for target in one.targets if isinstance(target, ast.Name))
        elif isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            yield one.target.id


if __name__ == "__main__":
    wheels = [Path(each) for each in sys.argv[1:]]
    public: dict[str, set[str]] = {}
    for wheel in wheels:
        for module, names in defined(wheel).items():
            public.setdefault(module, set()).update(names)
    lines = [f"{module}\t{' '.join(sorted(names))}\n" for module, names in sorted(public.items()) if names]
    Path("tests/airflow/public_names.tsv").write_text("".join(lines), encoding="utf-8")
    table = [COLUMNS, *rows(wheels)]
    (FOLDER / REEXPORTED).write_text("".join("\t".join(row) + "\n" for row in table), encoding="utf-8")
    print(f"{len(table) - 1} names")
