"""Files that are imported at the same time, in threads of one process: each gets the modules of now."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest
from attempt_builders import until

from aiosched.authoring.dag import loader
from aiosched.authoring.dag.sources import finder
from aiosched.executors.attempt.dag_cache import FileDags
from aiosched.executors.attempt.runner import drive
from tests.executors.test_dag_cache import a_run, put, word

PATIENCE = 30.0  # seconds for what takes no time
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
    monkeypatch.setattr(loader, "load_plugins", lambda folder: importlib.import_module("helper_of_both"))
    dags = FileDags(tmp_path)
    assert load(dags, "a", "1", "helper_of_both.py") == "one"

    helper(tmp_path, "helper_of_both", "two")

    assert load(dags, "a", "2", "helper_of_both.py") == "two"


@pytest.mark.parametrize("edited", ["other", "gated", "both"])
async def test_a_file_that_has_changed_does_not_disturb_the_import_of_another_one(
    tmp_path: Path, gate: Gate, edited: str
) -> None:
    """`a` imports `gated`, which takes a while; meanwhile a file is edited, and `b` is imported with its new code."""
    put(tmp_path, "from gated import WORD")
    put(tmp_path, "from other import WORD", name="b")
    helper(tmp_path, "gated", "one", gated=True)
    helper(tmp_path, "other", "one")
    dags = FileDags(tmp_path)
    assert load(dags, "b", "1", "other.py") == "one"

    with ThreadPoolExecutor() as threads:
        slow = threads.submit(load, dags, "a", "1", "gated.py")
        await until(gate.begun.is_set)
        for name in ("other", "gated") if edited == "both" else (edited,):
            helper(tmp_path, name, "two", gated=name == "gated")
        assert load(dags, "b", "2", "other.py") == ("one" if edited == "gated" else "two")
        gate.go.set()

        assert slow.result(PATIENCE) == ("one" if edited == "other" else "two")

    helper(tmp_path, "gated", "three")
    assert load(dags, "a", "3", "gated.py") == "three"


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
