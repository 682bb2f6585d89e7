"""Files that are imported at the same time, in threads of one process: each gets the modules of now."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

from aiosched.authoring.dag import loader, sources
from aiosched.authoring.dag.sources import finder
from aiosched.authoring.plugins.loading import LoadedPlugins
from aiosched.executors.attempt.dag_cache import FileDags
from aiosched.executors.attempt.runner import drive
from tests.executors.test_dag_cache import a_run, put, word
from tests.patience import PATIENCE, until

GATE = "import gate_of_this_test as gate\ngate.begun.set()\nassert gate.go.wait({patience})\n"


class Gate(ModuleType):
    """A module that holds up whoever imports a module with the lines of `GATE`."""

    def __init__(self) -> None:
        super().__init__("gate_of_this_test")
        self.begun, self.go = threading.Event(), threading.Event()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate()
    monkeypatch.setitem(sys.modules, gate.__name__, gate)
    finder.forget()
    yield gate
    gate.go.set()
    finder.forget()


def helper(folder: Path, name: str, text: str, *, gated: bool = False) -> None:
    (folder / f"{name}.py").write_text((GATE.format(patience=PATIENCE) if gated else "") + f"WORD = {text!r}\n")


def load(dags: FileDags, name: str, asked: str, *modules: str) -> object:
    return word(drive(dags.load(a_run(asked, *modules, file=f"{name}.py", dag_id=name))))


def test_a_module_that_is_imported_as_soon_as_its_folder_is_on_the_path_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gate: Gate
) -> None:
    helper(tmp_path, "helper_of_both", "one")
    put(tmp_path, "from helper_of_both import WORD")

    def load_plugins(folder: str | None) -> LoadedPlugins:
        importlib.import_module("helper_of_both")
        return LoadedPlugins()

    monkeypatch.setattr(loader, "load_plugins", load_plugins)
    dags = FileDags(tmp_path)
    assert load(dags, "a", "1", "helper_of_both.py") == "one"

    helper(tmp_path, "helper_of_both", "two")

    assert load(dags, "a", "2", "helper_of_both.py") == "two"


@pytest.mark.parametrize("edited", ["other", "gated", "both"])
async def test_a_change_waits_for_imports_and_then_everybody_gets_it(tmp_path: Path, gate: Gate, edited: str) -> None:
    """`a` imports `gated`, which takes a while; meanwhile a file is edited, and `b` is to be imported again."""
    (tmp_path / "user_of_gated.py").write_text("from gated import WORD\n")
    put(tmp_path, "import gated, user_of_gated\nWORD = (gated.WORD, user_of_gated.WORD)")
    put(tmp_path, "from other import WORD", name="b")
    helper(tmp_path, "gated", "one", gated=True)
    helper(tmp_path, "other", "one")
    dags = FileDags(tmp_path)
    assert load(dags, "b", "1", "other.py") == "one"

    with ThreadPoolExecutor() as threads:
        slow = threads.submit(load, dags, "a", "1", "gated.py", "user_of_gated.py")
        await until(gate.begun.is_set)
        for name in ("other", "gated") if edited == "both" else (edited,):
            helper(tmp_path, name, "two", gated=name == "gated")
        changed = threads.submit(load, dags, "b", "2", "other.py")
        gate.go.set()

        assert slow.result(PATIENCE) in {("one", "one"), ("two", "two")}
        assert changed.result(PATIENCE) == ("one" if edited == "gated" else "two")

    assert load(dags, "a", "2", "gated.py", "user_of_gated.py") == (
        ("one", "one") if edited == "other" else ("two", "two")
    )


async def test_a_package_that_is_imported_during_a_change_has_its_submodules(tmp_path: Path, gate: Gate) -> None:
    (tmp_path / "gated_package").mkdir()
    (tmp_path / "gated_package" / "__init__.py").write_text(GATE.format(patience=PATIENCE))
    (tmp_path / "gated_package" / "sub.py").write_text("WORD = 'one'\n")
    put(tmp_path, "import gated_package.sub\nWORD = gated_package.sub.WORD")
    put(tmp_path, "from other import WORD", name="b")
    helper(tmp_path, "other", "one")
    dags, modules = FileDags(tmp_path), ("gated_package/__init__.py", "gated_package/sub.py")
    assert load(dags, "b", "1", "other.py") == "one"

    with ThreadPoolExecutor() as threads:
        slow = threads.submit(load, dags, "a", "1", *modules)
        await until(gate.begun.is_set)
        helper(tmp_path, "other", "two")
        changed = threads.submit(load, dags, "b", "2", "other.py")
        gate.go.set()
        assert (slow.result(PATIENCE), changed.result(PATIENCE)) == ("one", "two")

    assert load(dags, "a", "1", *modules) == "one"


async def test_a_change_does_not_wait_for_an_import_that_hangs_and_what_that_imports_is_not_kept(
    tmp_path: Path, gate: Gate
) -> None:
    (tmp_path / "user_of_gated.py").write_text("from gated import WORD\n")
    put(tmp_path, "import gated, user_of_gated\nWORD = (gated.WORD, user_of_gated.WORD)")
    put(tmp_path, "from other import WORD", name="b")
    helper(tmp_path, "gated", "one", gated=True)
    helper(tmp_path, "other", "one")
    dags = FileDags(tmp_path, import_timeout=0.05)
    assert load(dags, "b", "1", "other.py") == "one"

    with ThreadPoolExecutor() as threads:
        hanging = threads.submit(load, dags, "a", "1", "gated.py", "user_of_gated.py")
        await until(gate.begun.is_set)
        for name in ("other", "gated"):
            helper(tmp_path, name, "two", gated=name == "gated")
        assert load(dags, "b", "2", "other.py") == "two"
        gate.go.set()
        assert hanging.result(PATIENCE) == ("two", "two")

    assert load(dags, "a", "2", "gated.py", "user_of_gated.py") == ("two", "two")
    assert load(dags, "b", "2", "other.py") == "two"


async def test_an_edit_just_after_an_import_is_not_taken_for_what_was_imported(tmp_path: Path, gate: Gate) -> None:
    """Another thread notices it, and imports the module anew, when this one has imported it and notes down its hash."""
    helper(tmp_path, "other", "one")
    for name in ("a", "b"):
        put(tmp_path, "from other import WORD", name=name)
    dags = FileDags(tmp_path)
    load(dags, "b", "1", "other.py")
    changed: list[Future[object]] = []

    with ThreadPoolExecutor() as threads:

        def edit() -> None:
            dags.after_import = lambda: None
            helper(tmp_path, "other", "two")
            changed.append(threads.submit(load, dags, "b", "2", "other.py"))

        dags.after_import = edit
        assert load(dags, "a", "1", "other.py") == "one"
        assert changed[0].result(PATIENCE) == "two"

    assert load(dags, "a", "2", "other.py") == "two"


async def test_a_module_whose_import_was_overtaken_by_a_change_is_imported_again_with_the_next_file(
    tmp_path: Path, gate: Gate
) -> None:
    """`gated` is imported by a running task, not along with a DAG file: nobody waits to import it again."""
    put(tmp_path, "from other import WORD")
    put(tmp_path, "from gated import WORD", name="b")
    helper(tmp_path, "gated", "one", gated=True)
    helper(tmp_path, "other", "one")
    dags = FileDags(tmp_path)
    assert load(dags, "a", "1", "other.py") == "one"

    with ThreadPoolExecutor() as threads:
        late = threads.submit(importlib.import_module, "gated")
        await until(gate.begun.is_set)
        helper(tmp_path, "gated", "two", gated=True)
        helper(tmp_path, "other", "two")
        assert load(dags, "a", "2", "other.py") == "two"
        gate.go.set()
        assert vars(late.result(PATIENCE))["WORD"] == "one"

    assert load(dags, "b", "2", "gated.py") == "two"


def test_a_module_is_known_until_it_is_unloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gate: Gate) -> None:
    """Else a trigger, which asks in another thread, would take the old one for a module of no DAGs folder."""
    helper(tmp_path, "helper_of_both", "one")
    put(tmp_path, "from helper_of_both import WORD")
    assert load(FileDags(tmp_path), "a", "1", "helper_of_both.py") == "one"
    was_known: list[bool] = []

    def ask_meanwhile(_: object) -> bool:
        was_known.append("helper_of_both" not in sys.modules or finder.knows("helper_of_both"))
        return False

    monkeypatch.setattr(sources, "_is_being_imported", ask_meanwhile)
    finder.forget()

    assert was_known == [True]
    assert "helper_of_both" not in sys.modules
    assert not finder.knows("helper_of_both")
