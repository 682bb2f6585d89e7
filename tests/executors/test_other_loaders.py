"""Modules that are loaded by something else than Python's import statement and aiosched's finder follow edits, too."""

from __future__ import annotations

import os
import py_compile
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiosched.authoring.dag.sources import finder
from aiosched.bundles.places import CodePlaces
from aiosched.executors.attempt.dag_cache import FileDags
from tests.executors.test_dag_cache import a_run, bundled, loaded, put, word

BY_PATH = """
import importlib.util, pathlib, sys
spec = importlib.util.spec_from_file_location("words", pathlib.Path(__file__).with_name("words.py"))
words = importlib.util.module_from_spec(spec)
{register}
spec.loader.exec_module(words)
WORD = words.WORD
"""
HOOK = """
import sys
from importlib.machinery import FileFinder, PathFinder, SourceFileLoader
class Checking(SourceFileLoader):
    pass
class First:
    def find_spec(self, name, path=None, target=None):
        spec = PathFinder.find_spec(name, path) if name == "words" else None
        if spec is not None:
            spec.loader = Checking(name, spec.origin)
        return spec
"""
WAYS = {
    "its path": BY_PATH.format(register=""),
    "its path, as a module that others import": BY_PATH.format(register="sys.modules['words'] = words"),
    "its path, once": """
import sys
if "words" not in sys.modules:
    import pathlib
    from importlib.machinery import SourceFileLoader
    SourceFileLoader("words", str(pathlib.Path(__file__).with_name("words.py"))).load_module()
from words import WORD
""",
    "runpy": "import pathlib, runpy\nWORD = runpy.run_path(pathlib.Path(__file__).with_name('words.py'))['WORD']",
    "a hook of the path": f"""{HOOK}
sys.path_hooks.insert(0, FileFinder.path_hook((Checking, [".py"])))
sys.path_importer_cache.clear()
from words import WORD
""",
    "a finder that comes first": f"{HOOK}\nsys.meta_path.insert(0, First())\nfrom words import WORD\n",
    "bytecode": "from words import WORD",
}


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("path", "path_hooks", "meta_path"):
        monkeypatch.setattr(sys, name, list(getattr(sys, name)))
    finder.forget()
    sys.modules.pop("words", None)
    yield
    finder.forget()
    sys.path_importer_cache.clear()


def write(folder: Path, way: str, text: str) -> None:
    """The module, with the time and the size of the one before."""
    source = folder / "words.py"
    source.write_text(f"WORD = {text!r}\n")
    os.utime(source, (1_700_000_000, 1_700_000_000))
    if way == "bytecode":
        py_compile.compile(str(source), cfile=str(folder / "words.pyc"), doraise=True)
        source.unlink()


@pytest.mark.parametrize("way", WAYS)
def test_an_edit_runs_though_time_and_size_are_as_before(tmp_path: Path, way: str) -> None:
    put(tmp_path, WAYS[way])
    dags, seen = FileDags(tmp_path), []

    for text in ("one", "two", "six"):
        write(tmp_path, way, text)
        seen.append(word(loaded(dags, a_run(text))))

    assert seen == ["one", "two", "six"]


@pytest.mark.parametrize("way", WAYS)
def test_each_version_has_its_own(tmp_path: Path, way: str) -> None:
    for version in ("one", "two"):
        (tmp_path / "team" / version).mkdir(parents=True)
        put(tmp_path / "team" / version, WAYS[way])
        write(tmp_path / "team" / version, way, version)
    dags = FileDags(places=CodePlaces({}, {"team": str(tmp_path / "team")}))

    assert [word(loaded(dags, bundled(version))) for version in ("one", "two", "one")] == ["one", "two", "one"]


def test_an_edit_mends_a_file_whose_module_others_have_loaded(tmp_path: Path) -> None:
    put(tmp_path, WAYS["a finder that comes first"].replace("import WORD", "import GONE as WORD"))
    write(tmp_path, "", "one")
    dags = FileDags(tmp_path)
    with pytest.raises(Exception, match="GONE"):
        loaded(dags, a_run("known"))

    (tmp_path / "words.py").write_text("GONE = 'two'\n")

    assert word(loaded(dags, a_run("known"))) == "two"
