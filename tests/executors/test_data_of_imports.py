"""What an import reads besides the sources that parsing lists: data files, folders, modules outside the DAGs folder."""

from __future__ import annotations

import inspect
import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiosched.authoring.dag.sources import digest_of, finder, source_hash
from aiosched.bundles.places import CodePlaces
from aiosched.executors.attempt.dag_cache import FileDags
from aiosched.executors.attempt.runner import DagUnavailable, drive
from tests.executors.test_dag_cache import a_run, loaded, word

OF_DATA = """
from pathlib import Path
from aiosched import DAG, EmptyOperator
HERE = Path(__file__).parent
{reads}
with DAG("a") as dag:
    EmptyOperator(task_id="t")
for name in NAMES:
    with DAG(name):
        EmptyOperator(task_id="t")
"""


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(finder, "tracks_others", True)  # as in a worker
    path = list(sys.path)
    finder.forget()
    for name in ("include", "include.lib", "settings_of_dags", "helpers_of_dags"):
        sys.modules.pop(name, None)
    yield
    finder.forget()
    sys.path[:] = path


def put(folder: Path, reads: str) -> str:
    """Write the DAG file; returns the source hash that parsing finds for it."""
    text = OF_DATA.format(reads=reads if "NAMES =" in reads else f"{reads}\nNAMES = ()")
    (folder / "a.py").write_text(text)
    return source_hash({"a.py": digest_of(text.encode())})


def rewrite(path: Path, content: str) -> None:
    """Change a file, and let its time be as before."""
    before = path.stat()
    path.write_text(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    "reads",
    [
        'WORD = (HERE / "word.txt").read_text()',
        'with open(HERE / "word.txt") as stream: WORD = stream.read()',
        'import os\nWORD = os.read(os.open(str(HERE / "word.txt"), os.O_RDONLY), 9).decode()',
        'import codecs\nWORD = codecs.open(str(HERE / "word.txt")).read()',
    ],
)
def test_a_data_file_that_was_edited_is_read_again(tmp_path: Path, reads: str) -> None:
    (tmp_path / "word.txt").write_text("one")
    run, dags = a_run(put(tmp_path, reads)), FileDags(tmp_path)

    first = loaded(dags, run)
    assert loaded(dags, run) is first
    rewrite(tmp_path / "word.txt", "two")

    assert word(first) == "one"
    assert word(loaded(dags, run)) == "two"


@pytest.mark.parametrize("name", ["word.txt", "conf/word.txt"])
def test_a_file_that_was_not_there_is_read_when_it_is(tmp_path: Path, name: str) -> None:
    reads = f"try:\n    WORD = (HERE / {name!r}).read_text()\nexcept OSError:\n    WORD = None"
    run, dags = a_run(put(tmp_path, reads)), FileDags(tmp_path)
    first = loaded(dags, run)
    assert loaded(dags, run) is first

    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("now")

    assert word(first) is None
    second = loaded(dags, run)
    assert word(second) == "now"
    assert loaded(dags, run) is second
    (tmp_path / name).unlink()
    assert word(loaded(dags, run)) is None


def test_what_a_package_brings_along_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "__init__.py").touch()
    (tmp_path / "include" / "word.txt").write_text("one")
    dags = FileDags(tmp_path)
    run = a_run(put(tmp_path, 'import pkgutil\nWORD = pkgutil.get_data("include", "word.txt").decode()'))
    assert word(loaded(dags, run)) == "one"

    rewrite(tmp_path / "include" / "word.txt", "two")

    assert word(loaded(dags, run)) == "two"


def test_a_folder_below_one_that_was_walked_is_listed_again(tmp_path: Path) -> None:
    (tmp_path / "conf" / "team").mkdir(parents=True)
    reads = 'import os\nWORD = [file for _, _, files in os.walk(HERE / "conf") for file in files]'
    run, dags = a_run(put(tmp_path, reads)), FileDags(tmp_path)
    assert word(loaded(dags, run)) == []

    (tmp_path / "conf" / "team" / "one.yaml").touch()

    assert word(loaded(dags, run)) == ["one.yaml"]


def test_data_that_a_shared_module_has_read_counts_for_all_files(tmp_path: Path) -> None:
    (tmp_path / "settings_of_dags.py").write_text(
        'from pathlib import Path\nX = Path(__file__).with_name("x").read_text()'
    )
    (tmp_path / "x").write_text("one")
    reads = "from settings_of_dags import X as WORD"
    put(tmp_path, reads)
    (tmp_path / "b.py").write_text((tmp_path / "a.py").read_text().replace('"a"', '"b"'))
    dags, other = FileDags(tmp_path), a_run(file="b.py", dag_id="b")
    loaded(dags, a_run()), loaded(dags, other)

    rewrite(tmp_path / "x", "two")

    assert word(loaded(dags, other)) == "two"
    assert word(loaded(dags, a_run())) == "two"


def test_a_dag_that_a_new_data_file_adds_is_there_at_once(tmp_path: Path) -> None:
    hash_ = put(tmp_path, 'NAMES = [each.stem for each in sorted((HERE / "conf").glob("*.yaml"))]')
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "one.yaml").touch()
    dags = FileDags(tmp_path)
    loaded(dags, a_run(hash_, dag_id="one"))

    (tmp_path / "conf" / "two.yaml").touch()

    assert loaded(dags, a_run(hash_, dag_id="two")).dag_id == "two"
    with pytest.raises(DagUnavailable, match="no longer defines the DAG 'three', it defines a, one, two"):
        drive(dags.load(a_run(hash_, dag_id="three")))


def test_a_dag_of_a_newer_version_is_imported_again_though_no_file_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORD_OF_DAGS", "one")  # stands for what an import asks a service
    run = a_run(put(tmp_path, 'import os\nWORD = os.environ["WORD_OF_DAGS"]'))
    dags = FileDags(tmp_path)
    first = loaded(dags, run)
    monkeypatch.setenv("WORD_OF_DAGS", "two")

    assert loaded(dags, run) is first
    newer = msgspec.structs.replace(run, code_version=2)
    second = loaded(dags, newer)

    assert word(second) == "two"
    assert loaded(dags, newer) is second
    assert loaded(dags, run) is second  # a scheduler that does not know of it yet


def test_what_an_import_writes_itself_does_not_make_it_stale(tmp_path: Path) -> None:
    reads = """
import tempfile, time
(HERE / "cache.json").write_text(str(time.time_ns()))
WORD = (HERE / "cache.json").read_text()
with tempfile.NamedTemporaryFile("w+") as file:
    file.write("x"); file.flush(); open(file.name).read()
"""
    run, dags = a_run(put(tmp_path, reads)), FileDags(tmp_path)

    first = loaded(dags, run)
    (tmp_path / "cache.json").write_text("by another worker")

    assert loaded(dags, run) is first


def test_a_module_outside_the_folder_that_was_edited_is_imported_again(tmp_path: Path) -> None:
    folder, include = tmp_path / "dags", tmp_path / "include"
    for each in (folder, include):
        each.mkdir()
    (include / "lib.py").write_text("WORD = 'one'\n")
    sys.path.insert(0, str(tmp_path))
    run, dags = a_run(put(folder, "from include.lib import WORD")), FileDags(folder)
    first = loaded(dags, run)

    rewrite(include / "lib.py", "WORD = 'two'\n")

    assert word(first) == "one"
    assert word(loaded(dags, run)) == "two"


def test_an_archive_on_the_path_that_was_replaced_is_listed_again(tmp_path: Path) -> None:
    folder, archive = tmp_path / "dags", tmp_path / "lib.zip"
    folder.mkdir()
    sys.path.insert(0, str(archive))

    def pack(word: str) -> None:
        with zipfile.ZipFile(archive, "w") as stream:
            stream.writestr("first.txt", word * 100)  # so that the module is elsewhere in it
            stream.writestr("settings_of_dags.py", f"WORD = {word!r}\n")

    pack("one")
    run, dags = a_run(put(folder, "from settings_of_dags import WORD")), FileDags(folder)
    assert word(loaded(dags, run)) == "one"
    pack("three")

    assert word(loaded(dags, run)) == "three"


@pytest.mark.parametrize("way", ["append", "insert"])
@pytest.mark.parametrize("beside", [True, False])
def test_a_folder_behind_a_link_brings_the_modules_of_the_release_that_it_is_now(
    tmp_path: Path, way: str, *, beside: bool
) -> None:
    """As git-sync repoints it. Files that resolve their own path have the old release on `sys.path`."""
    add = "sys.path.append(place)" if way == "append" else "sys.path.insert(0, place)"
    reads = f"import sys\nplace = str(HERE.resolve(){'.parent' if beside else ''})\nif place not in sys.path: {add}"
    for release in ("one", "two"):
        folder = tmp_path / release / "dags"
        folder.mkdir(parents=True)
        put(folder, f"{reads}\nfrom settings_of_dags import WORD")
        (folder.parent if beside else folder).joinpath("settings_of_dags.py").write_text(f"WORD = {release!r}\n")
    other = str(tmp_path / "one" / "lib" / "site-packages")
    sys.path.append(other)
    (tmp_path / "current").symlink_to(tmp_path / "one")
    dags = FileDags(tmp_path / "current" / "dags")
    assert word(loaded(dags, a_run("1"))) == "one"

    (tmp_path / "next").symlink_to(tmp_path / "two")
    (tmp_path / "next").rename(tmp_path / "current")

    assert word(loaded(dags, a_run("2"))) == "two"
    assert [entry for entry in sys.path if entry.startswith(str(tmp_path / "one"))] == [other]


def test_bundles_have_modules_of_equal_names_beside_their_folders(tmp_path: Path) -> None:
    """Which their files put on the path: `parents[1]` is in many projects."""
    places = {team: str(tmp_path / team / "dags") for team in ("one", "two")}
    for team, folder in places.items():
        (tmp_path / team / "include").mkdir(parents=True)
        (tmp_path / team / "include" / "lib.py").write_text(f"WORD = {team!r}\n")
        Path(folder).mkdir()
        put(Path(folder), "import sys\nsys.path.append(str(HERE.parent))\nfrom include.lib import WORD")
    dags, before = FileDags(places=CodePlaces(places)), list(sys.path)
    runs = [msgspec.structs.replace(a_run(file=f"{team}:a.py"), bundle=team) for team in places]

    assert [word(loaded(dags, run)) for run in (*runs, *runs)] == ["one", "two"] * 2
    assert set(sys.path) - set(before) == {places["two"], str(tmp_path / "two")}


def test_packages_that_were_installed_into_a_folder_of_their_own_are_left_alone(tmp_path: Path) -> None:
    """As by `pip install --target`: there are many, and some cannot be imported twice."""
    folder, target = tmp_path / "dags", tmp_path / "libs"
    folder.mkdir()
    (target / "include").mkdir(parents=True)
    (target / "include-1.0.dist-info").mkdir()
    (target / "include" / "lib.py").write_text("WORD = 'one'\n")
    sys.path.insert(0, str(target))
    run, dags = a_run(put(folder, "from include.lib import WORD")), FileDags(folder)
    first = loaded(dags, run)

    rewrite(target / "include" / "lib.py", "WORD = 'two'\n")

    assert loaded(dags, run) is first


def test_modules_of_the_host_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an application, what a DAG file imports from outside the folder belongs to the application."""
    monkeypatch.setattr(finder, "tracks_others", False)
    folder, include = tmp_path / "dags", tmp_path / "include"
    for each in (folder, include):
        each.mkdir()
    (include / "lib.py").write_text("WORD = 'one'\n")
    sys.path.insert(0, str(tmp_path))
    run, dags = a_run(put(folder, "from include.lib import WORD")), FileDags(folder)
    loaded(dags, run)
    module: Any = sys.modules["include.lib"]

    rewrite(include / "lib.py", "WORD = 'two'\n")
    loaded(dags, msgspec.structs.replace(run, code_version=2))

    assert sys.modules["include.lib"] is module


@pytest.mark.parametrize("name", ["a.py", "helpers_of_dags.py"])
def test_the_source_of_a_function_is_that_of_now_although_time_and_size_are_as_before(
    tmp_path: Path, name: str
) -> None:
    """As `@task.external_python` sends it to another interpreter."""
    helper = "def tell(): return 'one'\n"
    (tmp_path / "helpers_of_dags.py").write_text(helper)
    put(tmp_path, "from helpers_of_dags import tell as other\n" + helper)
    dags, function = FileDags(tmp_path), "tell" if name == "a.py" else "other"

    def source() -> str:
        dag = loaded(dags, a_run())
        module = next(m for m in list(sys.modules.values()) if m is not None and vars(m).get("dag") is dag)
        return inspect.getsource(vars(module)[function])

    assert "'one'" in source()
    rewrite(tmp_path / name, (tmp_path / name).read_text().replace("'one'", "'two'"))
    dags.forget(a_run())

    assert "'two'" in source()
