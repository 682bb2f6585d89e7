"""DAGs in a worker are those of the files as they are now, and name the source that they were imported from."""

from __future__ import annotations

import asyncio
import importlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.authoring.dag.sources import digest_of, finder, put_on_path, source_hash
from aiosched.bundles.places import CodePlaces
from aiosched.config import Settings
from aiosched.core.creation.upcoming import NO_RUN
from aiosched.core.values.messages import RunInfo
from aiosched.errors import Refused
from aiosched.executors.attempt import dag_cache
from aiosched.executors.attempt.dag_cache import FileDags
from aiosched.executors.attempt.runner import DagUnavailable, drive
from aiosched.parsing.check import check_paths
from tests.executors.attempt_builders import NOW

pytestmark = pytest.mark.usefixtures("kept_supervisors")

DAG = "from aiosched import DAG, EmptyOperator\n{imports}\nwith DAG({name!r}) as dag:\n    EmptyOperator(task_id='t')\n"


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """Undo what importing adds to this process, also what other tests have left of modules of these names."""
    path = list(sys.path)
    finder.forget()
    for name in ("words", "late", "later", "common", "common.words", "other", "former"):
        sys.modules.pop(name, None)
    yield
    finder.forget()
    sys.path[:] = path


def put(folder: Path, imports: str = "", *, name: str = "a") -> None:
    (folder / f"{name}.py").write_text(DAG.format(name=name, imports=imports))


def a_run(asked: str = "h", *modules: str, file: str = "a.py", dag_id: str = "a") -> RunInfo:
    return RunInfo(
        key=1,
        dag_id=dag_id,
        run_id="r",
        run_type="manual",
        run_after=NOW,
        file=file,
        source_hash=asked,
        modules=modules,
    )


def loaded(dags: FileDags, run: RunInfo) -> Any:
    return dags.cached(run) or drive(dags.load(run))


def parsed(folder: Path, name: str = "a.py") -> tuple[str, tuple[str, ...]]:
    """The source hash and the modules that parsing finds."""
    settings = Settings()
    settings.core.dags_folder = folder
    (result,) = asyncio.run(check_paths([folder / name], settings))
    assert result.source_hash is not None
    assert result.sources is not None
    return result.source_hash, tuple(sorted(result.sources.keys() - {name}))


def word(dag: Any) -> Any:
    """What the module that holds the DAG imported."""
    module = next(m for m in list(sys.modules.values()) if m is not None and vars(m).get("dag") is dag)
    return vars(module)["WORD"]


def test_what_a_worker_imports_has_the_hash_that_parsing_found(tmp_path: Path) -> None:
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "__init__.py").write_text("from . import words\nWORD = words.WORD\n")
    (tmp_path / "common" / "words.py").write_text("WORD = 'one'\n")
    for name in ("a", "b"):
        put(tmp_path, "from common import WORD", name=name)
    source, modules = parsed(tmp_path, "b.py")
    dags = FileDags(tmp_path)
    loaded(dags, a_run())

    dag = loaded(dags, a_run(source, *modules, file="b.py", dag_id="b"))

    assert modules == ("common/__init__.py", "common/words.py")
    assert dag._source_hash == source  # although another file had imported the modules already


def test_two_files_share_a_module_for_as_long_as_it_stays_the_same(tmp_path: Path) -> None:
    (tmp_path / "shared.py").write_text("WORD = object()\n")
    for name in ("a", "b"):
        put(tmp_path, "from shared import WORD", name=name)
    dags = FileDags(tmp_path)

    a, b = loaded(dags, a_run()), loaded(dags, a_run(file="b.py", dag_id="b"))

    assert word(a) is word(b)


def test_a_module_that_changes_twice_in_a_second_and_keeps_its_size_is_imported_each_time(tmp_path: Path) -> None:
    put(tmp_path, "from fast import WORD")
    dags, stamp = FileDags(tmp_path), (1_700_000_000, 1_700_000_000)

    for number in range(4):
        (tmp_path / "fast.py").write_text(f"WORD = {number}\n")
        os.utime(tmp_path / "fast.py", stamp)
        assert word(loaded(dags, a_run(f"h{number}", "fast.py"))) == number


def test_a_change_that_nobody_has_told_of_is_met_by_the_next_question(tmp_path: Path) -> None:
    put(tmp_path, "WORD = 1")
    source, modules = parsed(tmp_path)
    dags = FileDags(tmp_path)
    first = loaded(dags, a_run(source, *modules))
    put(tmp_path, "WORD = 2")

    assert loaded(dags, a_run(source, *modules)) is first  # as the scheduler knows it: no look at files
    assert word(loaded(dags, a_run("newer"))) == 2


def test_a_file_that_is_not_as_the_scheduler_says_is_looked_at_again_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "WORD = 1")
    dags = FileDags(tmp_path)
    first = loaded(dags, a_run("of a folder that is ahead"))
    assert dags.cached(a_run("of a folder that is ahead")) is first

    monkeypatch.setattr(dag_cache, "CHECK_AGAIN", 0.0)
    assert loaded(dags, a_run("of a folder that is ahead")) is first
    put(tmp_path, "WORD = 2")
    assert word(loaded(dags, a_run("of a folder that is ahead"))) == 2


def test_a_module_that_is_searched_while_its_folder_is_put_on_the_path_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a trigger's module is, on the loop, while a thread begins to import the DAG file of the trigger beside it."""
    (tmp_path / "words.py").write_text("WORD = 'one'")
    monkeypatch.setattr(sys, "meta_path", [each for each in sys.meta_path if each is not finder])  # a new process
    FileDags(tmp_path)

    class SlowFolder:
        def find_spec(self, name: str, target: object = None) -> None:
            finder.watch(tmp_path)
            put_on_path([str(tmp_path)])

    def hook(entry: str) -> SlowFolder:
        if entry != "slow":
            raise ImportError
        return SlowFolder()

    monkeypatch.setattr(sys, "path_hooks", [hook, *sys.path_hooks])
    monkeypatch.setattr(sys, "path", ["slow", *sys.path])
    importlib.import_module("words")
    monkeypatch.undo()

    assert finder.knows("words")


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("name", ["a.py", "helper.py"])
def test_a_file_that_is_written_exactly_while_it_is_imported(tmp_path: Path, name: str) -> None:
    newer = tmp_path / "newer"
    late = f"import os\nif os.path.exists({str(newer)!r}): os.rename({str(newer)!r}, {str(tmp_path / name)!r})\n"
    put(tmp_path, f"{late}from helper import WORD" if name == "a.py" else "from helper import WORD")
    (tmp_path / "helper.py").write_text(f"{late}WORD = 1\n" if name == "helper.py" else "WORD = 1\n")
    source, modules = parsed(tmp_path)
    before = (tmp_path / name).read_text()
    newer.write_text(before.replace("from helper import WORD", "WORD = 2").replace("WORD = 1", "WORD = 2"))
    dags = FileDags(tmp_path)

    first = loaded(dags, a_run(source, *modules))

    assert (tmp_path / name).read_text() != before
    assert (word(first), first._source_hash) == (1, source)  # what was compiled, not what stands there now
    newest, modules = parsed(tmp_path)
    second = loaded(dags, a_run(newest, *modules))
    assert (word(second), second._source_hash) == (2, newest)


def test_a_package_that_takes_the_place_of_a_module_is_imported(tmp_path: Path) -> None:
    put(tmp_path, "from thing import WORD")
    (tmp_path / "thing.py").write_text("WORD = 'module'\n")
    dags = FileDags(tmp_path)
    assert word(loaded(dags, a_run("1", "thing.py"))) == "module"
    (tmp_path / "thing").mkdir()
    (tmp_path / "thing" / "__init__.py").write_text("WORD = 'package'\n")

    assert word(loaded(dags, a_run("2", "thing/__init__.py"))) == "package"

    shutil.rmtree(tmp_path / "thing")
    assert word(loaded(dags, a_run("3", "thing.py"))) == "module"


def test_a_file_that_breaks_leaves_what_was_imported_for_those_who_ask_for_that(tmp_path: Path) -> None:
    put(tmp_path, "WORD = 1")
    source, modules = parsed(tmp_path)
    dags = FileDags(tmp_path)
    good = loaded(dags, a_run(source, *modules))
    (tmp_path / "a.py").write_text("def")

    with pytest.raises(DagUnavailable, match=r"a\.py cannot be imported: SyntaxError"):
        loaded(dags, a_run("newer"))
    assert loaded(dags, a_run(source, *modules)) is good


@pytest.mark.parametrize("edited", ["a.py", "helper.py"])
@pytest.mark.parametrize("idle", [3.0, 1_700.0])
def test_an_edit_runs_although_the_parser_has_not_read_it_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edited: str, idle: float
) -> None:
    """The first parse after a long time begins late: its processes have ended, and the machine may be busy."""
    now = 1_000.0
    monkeypatch.setattr(dag_cache, "time", SimpleNamespace(monotonic=lambda: now))
    put(tmp_path, "from helper import HELP\nWORD = (0, HELP)")
    (tmp_path / "helper.py").write_text("HELP = 0\n")
    source, modules = parsed(tmp_path)
    dags = FileDags(tmp_path)
    assert word(loaded(dags, a_run(source, *modules))) == (0, 0)

    now += idle
    if edited == "a.py":
        put(tmp_path, "from helper import HELP\nWORD = (1, HELP)")
    else:
        (tmp_path / "helper.py").write_text("HELP = 1\n")
    found = loaded(dags, a_run(source, *modules))  # what the scheduler still knows

    assert word(found) == ((1, 0) if edited == "a.py" else (0, 1))
    assert found._source_hash == parsed(tmp_path)[0]  # and it says what it ran
    assert dags.cached(a_run(source, *modules)) is found


@pytest.mark.parametrize("broken", ["def", "raise SystemExit(1)", "from helper import GONE", "gone = 1"])
@pytest.mark.parametrize("edited", ["a.py", "helper.py"])
def test_an_edit_that_cannot_be_imported_leaves_what_the_scheduler_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edited: str, broken: str
) -> None:
    monkeypatch.setattr(dag_cache, "CHECK_AGAIN", 0.0)
    put(tmp_path, "from helper import WORD")
    put(tmp_path, "from helper import WORD", name="b")
    (tmp_path / "helper.py").write_text("WORD = 1\n")
    source, modules = parsed(tmp_path)
    dags = FileDags(tmp_path)
    other = a_run(source, *modules, file="b.py", dag_id="b")
    good, beside = loaded(dags, a_run(source, *modules)), loaded(dags, other)
    (tmp_path / edited).write_text(broken)

    assert [loaded(dags, a_run(source, *modules)) for _ in range(2)] == [good, good]
    if edited == "helper.py":  # which it has imported, too
        assert [loaded(dags, other) for _ in range(2)] == [beside, beside]

    put(tmp_path, "WORD = 2")
    assert word(loaded(dags, a_run(source, *modules))) == 2


def test_installed_packages_inside_the_folder_are_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "venv" / "lib" / "site-packages"
    place.mkdir(parents=True)
    (place / "installed_thing.py").write_text("WORD = 1\n")
    put(tmp_path, f"import sys; sys.path.append({str(place)!r}); from installed_thing import WORD")

    loaded(FileDags(tmp_path), a_run())

    assert finder.loaded(tmp_path) == {}
    del sys.modules["installed_thing"]


@pytest.mark.parametrize("by", ["function", "helper", "package"])
def test_an_edit_of_a_module_that_is_imported_late_runs_also_if_another_file_has_imported_it(
    tmp_path: Path, by: str
) -> None:
    late = "def late():\n    import words\n    return words.WORD\n"
    if by == "package":
        late = "def late():\n    from common import words\n    return words.WORD\n"
        (tmp_path / "common").mkdir()
        (tmp_path / "common" / "__init__.py").touch()
    if by == "helper":
        (tmp_path / "later.py").write_text(late)
        late = "from later import late\n"
    module = tmp_path / "common" / "words.py" if by == "package" else tmp_path / "words.py"
    module.write_text("WORD = 'one'\n")
    put(tmp_path, "import common.words" if by == "package" else "import words")
    put(tmp_path, late, name="b")
    dags, b = FileDags(tmp_path), a_run("1", *(["later.py"] if by == "helper" else []), file="b.py", dag_id="b")
    loaded(dags, a_run())
    assert late_word(loaded(dags, b)) == "one"
    assert dags.cached(b) is not None

    module.write_text("WORD = 'two'\n")

    assert late_word(loaded(dags, b)) == "two"


# ---- versions of bundles ----


def of_version(folder: Path, version: str, word: str) -> None:
    """A version of the bundle `team` with a DAG file that imports a module, and one that imports it later."""
    code = folder / "team" / version
    code.mkdir(parents=True)
    (code / "words.py").write_text(f"WORD = {word!r}\n")
    (code / "late.py").write_text(f"WORD = {word!r}\n")
    put(code, "from words import WORD\ndef late():\n    import late\n    return late.WORD\n")


def bundled(version: str) -> RunInfo:
    run = a_run("h", "team:words.py", file="team:a.py")
    return msgspec.structs.replace(run, bundle="team", bundle_version=version)


def late_word(dag: Any) -> Any:
    module = next(m for m in list(sys.modules.values()) if m is not None and vars(m).get("dag") is dag)
    return vars(module)["late"]()


def test_a_process_has_the_modules_of_the_version_that_an_attempt_needs(tmp_path: Path) -> None:
    for version in ("one", "two"):
        of_version(tmp_path, version, version)
    dags = FileDags(places=CodePlaces({}, {"team": str(tmp_path / "team")}))

    seen = []
    for version in ("one", "two", "one", "two"):
        dag = loaded(dags, bundled(version))
        seen.append((word(dag), late_word(dag)))

    assert seen == [("one", "one"), ("two", "two")] * 2
    assert loaded(dags, bundled("two")) is dag, "imported once"
    assert [entry for entry in sys.path if str(tmp_path) in entry] == [str(tmp_path / "team" / "two")]


def test_files_of_a_version_are_never_checked_and_have_the_hash_that_parsing_found(tmp_path: Path) -> None:
    of_version(tmp_path, "one", "one")
    dags = FileDags(places=CodePlaces({}, {"team": str(tmp_path / "team")}))
    dag = loaded(dags, bundled("one"))
    content = {f"team:{n}": digest_of((tmp_path / "team" / "one" / n).read_bytes()) for n in ("a.py", "words.py")}

    (tmp_path / "team" / "one" / "a.py").write_text("broken(")

    assert loaded(dags, bundled("one")) is dag
    assert dag._source_hash == source_hash(content)


REPLACED = "import sys\nclass Words:\n    WORD = {word!r}\n{more}sys.modules[__name__] = Words()\n"
NOT_PLAIN = {
    "an object in place of the module": REPLACED,
    "an object that has every attribute": REPLACED.replace("{more}", "    def __getattr__(self, name): return self\n"),
    "an object that answers with errors": REPLACED.replace(
        "{more}", "    def __getattr__(self, name): raise KeyError\n"
    ),
    "a module without a spec": REPLACED.replace(
        "Words()", "type(sys)('words'); sys.modules[__name__].WORD = Words.WORD"
    ),
    "another module of the folder": "import sys, other\nsys.modules[__name__] = other\n",
    "another module, under one more name": "import sys, other\nsys.modules['former'] = other\nWORD = other.WORD\n",
}


@pytest.mark.parametrize("kind", NOT_PLAIN)
def test_a_module_is_replaced_whatever_it_has_put_in_its_place(tmp_path: Path, kind: str) -> None:
    imports = "try:\n    from former import WORD\nexcept ImportError:\n    import words\n    WORD = words.WORD\n"
    dags = FileDags(places=CodePlaces({"": str(tmp_path / "now")}, {"team": str(tmp_path / "team")}))
    versions = [tmp_path / "team" / word for word in ("one", "two")]
    for folder in (tmp_path / "now", *versions):
        folder.mkdir(parents=True)
        (folder / "words.py").write_text(NOT_PLAIN[kind].format(word=folder.name, more=""))
        (folder / "other.py").write_text(f"WORD = {folder.name!r}\n")
        put(folder, imports)

    seen = [word(loaded(dags, bundled(version))) for version in ("one", "two", "one")]
    assert seen == ["one", "two", "one"], "versions"
    assert word(loaded(dags, a_run("1", "words.py"))) == "now"
    (tmp_path / "now" / "words.py").write_text(NOT_PLAIN[kind].format(word="later", more=""))
    (tmp_path / "now" / "other.py").write_text("WORD = 'later'\n")
    assert word(loaded(dags, a_run("2", "words.py"))) == "later"


LAZY = """import sys, importlib.util
spec = importlib.util.find_spec("words")
spec.loader = importlib.util.LazyLoader(spec.loader)
words = sys.modules["words"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(words)
def late():
    return words.WORD
"""


def test_a_lazy_module_that_nobody_has_used_is_replaced_without_being_imported(tmp_path: Path) -> None:
    put(tmp_path, "from later import late")
    (tmp_path / "later.py").write_text(LAZY)
    (tmp_path / "words.py").write_text("import other\nWORD = 'one'\n")
    (tmp_path / "other.py").write_text("raise SystemExit('nobody needs it')\n")
    dags = FileDags(tmp_path)
    loaded(dags, a_run("1"))

    finder.forget()  # it would wait for its own lock if that imported something
    assert "words" not in sys.modules
    (tmp_path / "words.py").write_text("WORD = 'two'\n")

    assert late_word(loaded(dags, a_run("2"))) == "two"


def test_a_version_that_is_not_here_is_fetched_or_the_reason_is_given(tmp_path: Path) -> None:
    dags = FileDags(places=CodePlaces({}, {"team": str(tmp_path / "team")}))
    with pytest.raises(DagUnavailable, match="version one of team is not on this machine"):
        loaded(dags, bundled("one"))

    def refuse(run: RunInfo) -> None:
        raise Refused("it is gone")

    dags.fetch = refuse
    with pytest.raises(DagUnavailable, match="it is gone") as caught:
        loaded(dags, bundled("one"))
    assert caught.value.passing

    dags.fetch = lambda run: of_version(tmp_path, "one", "one")
    assert word(loaded(dags, bundled("one"))) == "one"


def test_a_bundle_that_this_machine_does_not_know_is_named(tmp_path: Path) -> None:
    with pytest.raises(DagUnavailable, match=r"no bundle 'team' in the settings of this machine"):
        loaded(FileDags(tmp_path), bundled("one"))


def test_a_process_keeps_the_modules_of_few_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dag_cache, "MOST_CODES", 2)
    dags = FileDags(places=CodePlaces({}, {"team": str(tmp_path / "team")}))
    for version in ("one", "two", "three"):
        of_version(tmp_path, version, version)
        loaded(dags, bundled(version))

    files = {str(getattr(m, "__file__", "")) for m in list(sys.modules.values())}

    assert {file for file in files if file.startswith(str(tmp_path)) and file.endswith("a.py")} == {
        str(tmp_path / "team" / version / "a.py") for version in ("two", "three")
    }
    assert word(loaded(dags, bundled("one"))) == "one"


STEPS = st.lists(st.sampled_from(["edit", "edit helper", "warm", "warm late", "run", "run late"]), max_size=14)


@given(STEPS)
def test_after_an_import_beforehand_the_next_attempt_runs_the_code_of_now(steps: list[str]) -> None:
    """Files are edited within the same tick, to the same size; `late`: with the source that was known at first.

    So does every attempt that is asked for the newest source. Another one may run what has run before: that is as old
    as what the parser knows.
    """
    with tempfile.TemporaryDirectory() as name:
        folder, dags, words, checked = Path(name), FileDags(Path(name)), [0, 0], False
        (folder / "words.py").write_text("HELP = 0\n")
        put(folder, "import words\nWORD = (0, words.HELP)")

        def known(*, late: bool) -> str:
            digests = [digest_of((folder / file).read_bytes()) for file in ("a.py", "words.py")]
            return "first" if late else source_hash(dict(zip(("a.py", "words.py"), digests, strict=True)))

        for number, step in enumerate(steps):
            late = step.endswith("late")
            if step == "edit":
                words[0] = number % 10
                put(folder, f"import words\nWORD = ({words[0]}, words.HELP)")
            elif step == "edit helper":
                words[1] = number % 10
                (folder / "words.py").write_text(f"HELP = {words[1]}\n")
            elif step.startswith("warm"):
                run = msgspec.structs.replace(a_run(known(late=late), "words.py"), key=NO_RUN)
                drive(dags.warm(run))
                checked = True
            else:
                found = word(loaded(dags, a_run(known(late=late), "words.py")))
                if checked or not late:
                    assert found == tuple(words)
                checked = False
        finder.forget()
