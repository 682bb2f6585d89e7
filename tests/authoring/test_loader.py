"""From a DAG file to its DAGs."""

from __future__ import annotations

import asyncio
import sys
import textwrap
import traceback
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiosched.authoring.dag.loader import LoadedFile, load_file, module_name
from aiosched.authoring.dag.sources import may_define_dags
from aiosched.core.graph.spec import encode_spec
from aiosched.errors import DagError, DuplicateTaskError
from tests.undone_imports import undone_imports

WITH = "from aiosched import DAG, dag, task, EmptyOperator\n"


@pytest.fixture(autouse=True)
def clean_imports() -> Iterator[None]:
    """Undo what loading adds to this process."""
    with undone_imports():
        yield


def load(folder: Path, code: str, name: str = "file.py") -> LoadedFile:
    path = folder / name
    path.write_text(WITH + textwrap.dedent(code))
    return load_file(path, root=folder)


def ids(loaded: LoadedFile) -> list[str]:
    return [dag.dag_id for dag in loaded.dags]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("a = DAG('a')\nb = DAG('b')", ["a", "b"]),
        ("with DAG('a'):\n    pass\nwith DAG('b'):\n    pass", ["a", "b"]),
        ("@dag\ndef a(): ...\na()", ["a"]),
        ("@dag\ndef a(): ...\nx = y = a()", ["a"]),
        ("@dag\ndef a(): ...", []),
        ("def make(name):\n    with DAG(name):\n        pass\nfor n in 'ab': make(n)", ["a", "b"]),
        ("DAG('lost')", []),
        ("with DAG('a', auto_register=False):\n    pass", []),
        ("with DAG('b') as x:\n    pass\na = DAG('a')\nwith x:\n    EmptyOperator(task_id='t')", ["b", "a"]),
        ("x = [DAG('a')]", []),
        ("", []),
    ],
)
def test_which_dags_a_file_defines(tmp_path: Path, code: str, found: list[str]) -> None:
    assert ids(load(tmp_path, code)) == found


def test_a_file_can_import_modules_of_its_folder_and_their_dags_are_their_own(tmp_path: Path) -> None:
    (tmp_path / "helper_of_test.py").write_text(
        f"{WITH}with DAG('other'):\n    pass\ndef make(name):\n    with DAG(name):\n        pass\n"
    )

    assert ids(load(tmp_path, "import helper_of_test\nhelper_of_test.make('mine')")) == ["mine"]


def test_a_file_named_like_a_module_of_the_standard_library_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "colorsys.py").write_text("from aiosched import DAG\na = DAG('hides')\n")
    (tmp_path / "helpers.py").write_text("name = 'ours'\n")
    sys.modules.pop("colorsys", None)

    loaded = load(tmp_path, "import colorsys, helpers\na = DAG(helpers.name)\nassert colorsys.rgb_to_hsv(0, 0, 0)")

    assert ids(loaded) == ["ours"]
    assert ids(load_file(tmp_path / "colorsys.py", root=tmp_path)) == ["hides"]


def test_modules_beside_a_file_come_before_installed_packages(tmp_path: Path) -> None:
    (tmp_path / "wheel").mkdir()
    (tmp_path / "wheel" / "__init__.py").write_text("name = 'ours'\n")
    sys.modules.pop("wheel", None)

    assert ids(load(tmp_path, "import wheel\na = DAG(wheel.name)")) == ["ours"]


def test_the_place_of_a_dag_is_the_file(tmp_path: Path) -> None:
    loaded = load(tmp_path, "with DAG('a', template_searchpath='x') as d:\n    EmptyOperator(task_id='t')")

    assert loaded.dags[0].fileloc == str(tmp_path / "file.py")
    assert loaded.dags[0].folder == str(tmp_path)
    assert loaded.dags[0].task("t")._origin == (str(tmp_path / "file.py"), 3)


def test_two_dags_with_one_id_are_an_error_at_the_second(tmp_path: Path) -> None:
    with pytest.raises(DuplicateTaskError, match="two DAGs with the id 'a', first at line 2") as caught:
        load(tmp_path, "a = DAG('a')\nb = DAG('a')")

    assert (caught.value.file, caught.value.line) == (str(tmp_path / "file.py"), 3)


@pytest.mark.parametrize(
    ("code", "error"),
    [("1 / 0", ZeroDivisionError), ("import sys; sys.exit(3)", SystemExit), ("def", SyntaxError), ("DAG()", DagError)],
)
def test_errors_of_the_file_come_through(tmp_path: Path, code: str, error: type[BaseException]) -> None:
    with pytest.raises(error):
        load(tmp_path, code)

    assert module_name(tmp_path / "file.py") not in sys.modules


def test_a_failed_reload_keeps_the_module_that_running_tasks_use(tmp_path: Path) -> None:
    load(tmp_path, "x = 1")
    with pytest.raises(ZeroDivisionError):
        load(tmp_path, "1 / 0")

    assert sys.modules[module_name(tmp_path / "file.py")].x == 1


def test_a_change_within_one_second_is_seen(tmp_path: Path) -> None:
    assert ids(load(tmp_path, "a = DAG('a')")) == ["a"]
    assert ids(load(tmp_path, "a = DAG('b')")) == ["b"]
    assert not (tmp_path / "__pycache__").exists()


def test_files_with_one_name_are_different_modules(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        assert ids(load(tmp_path / name, f"a = DAG('{name}')")) == [name]

    assert module_name(tmp_path / "a" / "file.py") != module_name(tmp_path / "b" / "file.py")


def test_classes_of_a_file_know_their_module(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        """
        from dataclasses import dataclass
        @dataclass
        class Row:
            x: "int"
        with DAG('a', params={}) as d:
            d.made = Row(1)
        """,
    )

    made = type(loaded.dags[0].made)  # type: ignore[attr-defined]
    assert sys.modules[made.__module__].Row is made


def test_warnings_are_collected_with_their_place(tmp_path: Path) -> None:
    loaded = load(tmp_path, "import warnings\nwarnings.warn('mind this')\nDAG('a', orientation='LR')")

    mind, orientation = loaded.warnings
    assert mind == f"{tmp_path}/file.py:3: UserWarning: mind this"
    assert orientation.startswith(f"{tmp_path}/file.py:4: AuthoringWarning: DAG('a'): 'orientation' has no effect, ")


async def test_other_threads_leave_the_warnings_of_the_process_alone(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="mind this"):
        loaded = await asyncio.to_thread(load, tmp_path, "import warnings\nwarnings.warn('mind this')\nx = DAG('a')")

    assert (ids(loaded), loaded.warnings) == (["a"], [])


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "dags.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("one.py", f"{WITH}from helper_in_zip import NAME\nx = DAG(NAME)\n")
        file.writestr("two.py", f"{WITH}with DAG('two'):\n    pass\n")
        file.writestr("helper_in_zip.py", "NAME = 'one'\n")
        file.writestr("broken.py", "# no words that make it one of ours\n1 / 0\n")
        file.writestr("deep/three.py", f"{WITH}x = DAG('three')\n")
        file.writestr("README.md", "aiosched dag")
    return path


def test_an_archives_modules_at_its_root_are_loaded(tmp_path: Path, archive: Path) -> None:
    loaded = load_file(archive, root=tmp_path)

    assert ids(loaded) == ["one", "two"]
    assert loaded.dags[0].fileloc == str(archive / "one.py")


def test_one_module_of_an_archive_can_be_loaded_alone(tmp_path: Path, archive: Path) -> None:
    assert ids(load_file(archive, root=tmp_path, member="two.py")) == ["two"]


def test_errors_in_an_archive_show_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "dags.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("bad.py", f"{WITH}def f():\n    return 1 / 0\nf()\n")

    with pytest.raises(ZeroDivisionError) as caught:
        load_file(path, root=tmp_path)

    shown = "".join(traceback.format_exception(caught.value))
    assert f'File "{path}/bad.py", line 3, in f' in shown
    assert "return 1 / 0" in shown


@pytest.mark.parametrize(
    ("content", "candidate"),
    [
        (b"import aiosched\n@dag", True),
        (b"from aiosched import DAG", True),
        (b"from Airflow import DAG", True),
        (b"import AIRFLOW\n@DAG", True),
        (b"from aiosched import Asset", True),
        (b"airflow asset", True),
        (b"# a dag for airflow", True),
        (b"\xff\xfe aiosched dag", True),
        (b"import aiosched", False),
        (b"dag = asset = 1", False),
        (b"dag", False),
        (b"", False),
    ],
)
def test_safe_mode_looks_for_words(content: bytes, candidate: bool) -> None:
    assert may_define_dags(content) is candidate


def test_two_loads_give_the_same_bytes(tmp_path: Path) -> None:
    code = """
    with DAG('a', tags={'x', 'y', 'z'}, params={'b': 1, 'a': [2]}, start_date='2026-01-01', schedule='@daily') as d:
        first = EmptyOperator(task_id='first')
        @task
        def f(x): ...
        f({'a', 'b', 'c', 'd'}) << first
        f(lambda: 1)
        f(object())
    """

    one, other = (encode_spec(load(tmp_path, code).dags[0].to_spec()) for _ in range(2))

    assert one == other
    assert b"0x" not in one


def test_advice_about_a_dag_is_among_the_warnings_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "d.py"
    file.write_text(
        "from aiosched import DAG, EmptyOperator\n"
        "with DAG('d'):\n"
        "    EmptyOperator(task_id='down').as_teardown()\n"
        "    EmptyOperator.partial(task_id='lost')\n"
    )

    teardown, partial = sorted(load_file(file, root=tmp_path).warnings)

    assert teardown.startswith(f"{file}:3: AuthoringWarning: The teardown 'down' has no setup, so it runs at once")
    assert partial.startswith(f"{file}:4: AuthoringWarning: EmptyOperator(task_id='lost').partial() makes no task")
