"""The project around the code: what a stranger with a fresh clone relies on."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import aiosched

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CODE = ("aiosched", "tests", "examples", "benchmarks")
DOCSTRING = re.compile(r'(?:#.*\n|\s)*r?"""\S')
MOST_DISTRIBUTIONS = 49  # with what FastAPI and uvicorn bring, see docs/decisions/0002


def files(*suffixes: str) -> Iterator[Path]:
    """The project's own files: those at the root and those in the folders that belong to it."""
    yield from (
        path for path in sorted(ROOT.iterdir()) if path.is_file() and path.suffix in suffixes and path.name != ".git"
    )
    for folder in (*CODE, "docs", ".ci", "deploy"):
        yield from (
            path
            for path in sorted((ROOT / folder).rglob("*"))
            if path.is_file() and path.suffix in suffixes and "__pycache__" not in path.parts
        )


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


# ---- the tree ----


@pytest.mark.parametrize("room", ["scheduler", "parsing", "executors", "db"])
def test_the_root_shows_the_rooms_as_links(room: str) -> None:
    link = ROOT / room

    assert link.is_symlink()
    assert link.readlink() == Path("aiosched") / room


def test_every_module_says_what_lives_in_it() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in files(".py")
        if path.stat().st_size and not DOCSTRING.match(path.read_text(encoding="utf-8"))
    ]

    assert silent == []


def test_nothing_mentions_a_path_of_one_machine() -> None:
    machine_path = re.compile(r"(?<![\w.~-])/(?:work|farm|root|home|Users)/[A-Za-z]")

    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in files(".py", ".md", ".toml", ".yml", ".yaml", ".service", ".svg", "")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if machine_path.search(line)
    ]

    assert found == []


# ---- installing and importing ----


def test_a_base_install_stays_small() -> None:
    seen: set[tuple[str, str]] = set()  # a distribution and one of its extras, "" for itself
    waiting = [Requirement(text) for text in PYPROJECT["project"]["dependencies"]]

    while waiting:
        wanted = waiting.pop()
        name = re.sub(r"[-_.]+", "-", wanted.name).lower()
        for extra in {"", *wanted.extras}:
            if _applies(wanted, "") and (name, extra) not in seen:
                seen.add((name, extra))
                if name != "python-dateutil":  # the older one, which Celery pins in a test environment, needs six
                    waiting += _needs(wanted.name, extra)

    installed = {name for name, _ in seen} | {"aiosched"}
    assert len(installed) < MOST_DISTRIBUTIONS, sorted(installed)


def _needs(distribution: str, extra: str) -> list[Requirement]:
    """What `distribution[extra]` requires on this machine; the answers' markers are settled."""
    needed = [r for r in map(Requirement, metadata.requires(distribution) or ()) if _applies(r, extra)]
    for requirement in needed:
        requirement.marker = None
    return needed


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def test_importing_aiosched_creates_no_file_and_starts_no_thread_or_process(tmp_path: Path) -> None:
    program = """
import json, sys, threading
import aiosched
from aiosched import DAG, Scheduler, dag, task
import psutil
print(json.dumps([threading.active_count(), len(psutil.Process().children())]))
"""
    environment = {**os.environ, "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}

    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )

    assert json.loads(done.stdout) == [1, 0]
    assert list(tmp_path.iterdir()) == []


def test_importing_aiosched_does_not_import_the_database() -> None:
    program = "import sys, aiosched; print([m for m in ('sqlalchemy', 'asyncpg', 'alembic') if m in sys.modules])"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_the_core_imports_nothing_but_what_the_architecture_allows() -> None:
    allowed = {"croniter", "pendulum", "msgspec", "dateutil", "re2"} | sys.stdlib_module_names
    allowed_of_ours = ("aiosched.core", "aiosched.clock", "aiosched.errors", "aiosched.lazy")

    foreign = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / "aiosched" / "core").rglob("*.py")
        for name in imports(path)
        if not (name.startswith(allowed_of_ours) if name.startswith("aiosched") else name.split(".")[0] in allowed)
    }

    assert foreign == set()


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


# ---- what the documents say ----


def test_the_readmes_test_command_is_the_one_that_ci_runs() -> None:
    first, second = [
        line.removeprefix("$ ") for line in read("README.md").splitlines() if line.startswith("$ pip install ")
    ]

    assert first == "pip install . && aiosched serve --dags examples/dags"
    assert f"{{ {second}; }}" in read(".ci/run")
    assert second.split(" && ")[1] in read("Makefile")


@pytest.mark.parametrize("script", [".ci/run", ".ci/lint", ".ci/docs", ".ci/lock", ".ci/pythons"])
def test_the_scripts_of_ci_can_be_run(script: str) -> None:
    assert os.access(ROOT / script, os.X_OK)
    subprocess.run(["bash", "-n", str(ROOT / script)], check=True)


def test_the_changelog_has_the_current_version() -> None:
    assert PYPROJECT["project"]["version"] == aiosched.__version__
    version, is_released = aiosched.__version__.partition(".dev")[0], ".dev" not in aiosched.__version__
    date = r"\d{4}-\d\d-\d\d" if is_released else "not released yet"
    assert re.search(rf"^## \[{re.escape(version)}\] - {date}$", read("CHANGELOG.md"), re.M)


def test_every_link_of_the_documents_leads_somewhere() -> None:
    broken = [
        f"{path.relative_to(ROOT)}: {target}"
        for path in files(".md")
        for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8"))
        if not target.startswith(("https://", "#")) and not (path.parent / target.split("#")[0]).exists()
    ]

    assert broken == []


def test_every_decision_is_in_the_list_of_decisions() -> None:
    index = read("docs/decisions/README.md")

    assert [page.name for page in (ROOT / "docs/decisions").glob("0*.md") if f"({page.name})" not in index] == []


def test_every_folder_says_what_it_is() -> None:
    inits = sorted((ROOT / "aiosched").rglob("__init__.py"))

    assert inits
    assert [str(init) for init in inits if not DOCSTRING.match(init.read_text("utf-8"))] == []


def test_every_dependency_has_its_line_in_the_decisions() -> None:
    page = read("docs/decisions/0002-dependencies.md")
    names = [Requirement(text).name for text in PYPROJECT["project"]["dependencies"]]

    assert [name for name in names if f"| {name} |" not in page] == []
