"""The source of the web UI: short modules with a head comment, formatted, and with the API's models as types."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.patience import PATIENCE

ROOT: Final = Path(__file__).parents[2]
UI: Final = ROOT / "aiosched" / "web" / "ui"
TOOLS: Final = ROOT / "tools" / "ui"
MODULES: Final = [path for path in sorted(UI.rglob("*.js")) if UI / "vendor" not in path.parents]
NODE: Final = shutil.which("node")
WIDTH: Final = 120
OWN_SIZE: Final = re.compile(r"(?:font-size|font): *[\d.]+(?:px|pt|rem)[^;]*")

needs_tools = pytest.mark.skipif(
    NODE is None or not (TOOLS / "node_modules").is_dir(),
    reason="the web UI's source is not checked: its tools are missing (Node 20, then npm ci --prefix tools/ui)",
)


def run(*arguments: str) -> None:
    """Run a tool; what it complains about fails the test."""
    assert NODE is not None
    done = subprocess.run([NODE, *arguments], cwd=TOOLS, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_tools
def test_the_modules_are_formatted() -> None:
    run("format.mjs", "--check")


@needs_tools
def test_the_types_are_those_of_the_committed_document_of_the_api() -> None:
    run("types.mjs", "--check")


@needs_tools
def test_the_modules_use_the_models_of_the_api_as_they_are() -> None:
    run("node_modules/typescript/bin/tsc", "--project", ".")


def test_every_parameter_has_a_type() -> None:
    options = json.loads((TOOLS / "tsconfig.json").read_text(encoding="utf-8"))["compilerOptions"]

    assert options["strict"] is True
    assert options.get("noImplicitAny", True) is True
    assert [path.name for path in MODULES if "@ts-" in path.read_text(encoding="utf-8")] == []


def test_a_module_says_what_it_is_for() -> None:
    for path in MODULES:
        lines = path.read_text(encoding="utf-8").splitlines()
        where = path.relative_to(UI)
        assert lines[0].startswith("// "), f"{where} has no head comment"
        assert lines[0].endswith((".", ":")) or lines[1].startswith("//"), f"the head of {where} is no sentence"


def test_no_line_is_too_long() -> None:
    long = [
        f"{path.relative_to(UI)}:{number}"
        for path in MODULES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > WIDTH
    ]
    assert long == []


def test_types_and_libraries_have_one_version() -> None:
    """The libraries that the pages load and the ones that their types come from."""
    vendored = json.loads((UI / "vendor" / "vendored.json").read_text(encoding="utf-8"))["packages"]
    shipped = {package["name"]: package["version"] for package in vendored}
    wanted = json.loads((TOOLS / "package.json").read_text(encoding="utf-8"))["devDependencies"]

    assert {name: version for name, version in wanted.items() if name in shipped} == {
        name: version for name, version in shipped.items() if name in wanted
    }


def test_sizes_of_text_are_those_of_the_type_scale() -> None:
    styles = [path for path in (UI / "css").glob("*.css") if path.name != "variables.css"]
    own = [f"{path.name}: {found}" for path in styles for found in OWN_SIZE.findall(path.read_text(encoding="utf-8"))]
    assert not own, "docs/ui-style.md names the variables"
