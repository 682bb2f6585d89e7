"""Modules and plugins of the project around the DAGs folder, wherever a command is started. docs/airflow.md."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aiosched.authoring.base.settings import AuthoringDefaults, use_defaults
from aiosched.cli.dags.dag_files import find_dag
from aiosched.config import Settings, load_settings
from aiosched.config.project import folders_above
from aiosched.core.values.messages import RunInfo
from aiosched.executors.attempt.dag_cache import FileDags
from aiosched.parsing.check import check_paths
from aiosched.testing import load_dag_bag
from aiosched.testing.airflow_dag_bag import DagBag
from tests.parsing.builders import write
from tests.undone_imports import without_plugins

DAG = "import aiosched\nfrom {module} import NAME\nwith aiosched.DAG('d', schedule=None, tags=[NAME]): pass\n"
PLACES = {
    "include.hbtexts": "include/hbtexts.py",
    "include.deep.hbtexts": "include/deep/hbtexts.py",
    "hbconfigured": "config/hbconfigured.py",
    "hbincluded": "include/hbincluded.py",
    "hbbeside.texts": "hbbeside/texts.py",
    "dags.hbcommon": "dags/hbcommon.py",
    "plugins.hbplugged": "plugins/hbplugged.py",
    "hbplugged": "plugins/hbplugged.py",
    "hboperators.own": "plugins/hboperators/own.py",
}


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A working directory that has nothing to do with the project, and nothing imported of it before or after."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with without_plugins(monkeypatch):
        yield
    use_defaults(AuthoringDefaults())


def project(tmp_path: Path, module: str, file: str) -> Path:
    """A project `etl` with this file; its DAGs folder."""
    write(tmp_path, f"etl/{file}", "NAME = 'found'\n")
    write(tmp_path, "etl/dags/sub/d.py", DAG.format(module=module))
    return tmp_path / "etl" / "dags"


def settings_of(folder: Path, **environ: str) -> Settings:
    return load_settings({"core.dags_folder": folder}, environ=environ).settings


async def test_parsing_finds_modules_of_the_project(tmp_path: Path) -> None:
    for number, (module, file) in enumerate(PLACES.items()):
        write(tmp_path, f"etl/{file}", "NAME = 'found'\n")
        write(tmp_path, f"etl/dags/{number}.py", DAG.format(module=module).replace("'d'", f"'d{number}'"))

    found = await check_paths([], settings_of(tmp_path / "etl" / "dags"))

    assert [one.error for one in found] == [None] * len(PLACES)


def load_in_worker(folder: Path) -> object:
    now = datetime.now(UTC)
    run = RunInfo(key=1, dag_id="d", run_id="r", run_type="manual", run_after=now, file="sub/d.py")
    return asyncio.run(FileDags.of(settings_of(folder)).load(run))


READERS: dict[str, Callable[[Path], object]] = {
    "workers": load_in_worker,
    "dags test": lambda folder: find_dag("d", settings_of(folder)),
    "load_dag_bag": lambda folder: load_dag_bag(folder)["d"],
    "Airflow's DagBag": lambda folder: DagBag(folder).dags["d"],
    "Airflow's DagBag of a part": lambda folder: DagBag(folder / "sub").dags["d"],
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("module", ["include.hbtexts", "hboperators.own"])
def test_so_does_everything_that_reads_dag_files(tmp_path: Path, module: str, reader: str) -> None:
    folder = project(tmp_path, module, PLACES[module])

    dag = READERS[reader](folder)

    assert set(dag.tags) == {"found"}  # type: ignore[attr-defined]


async def test_a_file_that_is_named_belongs_to_the_project_around_it(tmp_path: Path) -> None:
    folder = project(tmp_path, "hbplugged", PLACES["hbplugged"])

    (parsed,) = await check_paths([folder / "sub" / "d.py"], load_settings({}, environ={}).settings)

    assert parsed.error is None


@pytest.mark.parametrize(
    ("environ", "plugins", "more"),
    [
        ({}, "/etl/plugins", None),
        ({"AIRFLOW_HOME": "/a"}, "/etl/plugins", "/a"),
        ({"AIOSCHED__CORE__PROJECT_FOLDER": "/a", "AIRFLOW_HOME": "/b"}, "/etl/plugins", "/a"),
        ({"AIRFLOW__CORE__PLUGINS_FOLDER": "/a"}, "/a", None),
        ({"AIOSCHED__CORE__PLUGINS_FOLDER": "/a", "AIRFLOW__CORE__PLUGINS_FOLDER": "/b"}, "/a", None),
    ],
)
def test_settings_and_airflows_variables_name_folders(
    tmp_path: Path, environ: dict[str, str], plugins: str, more: str | None
) -> None:
    etl = tmp_path / "etl"
    etl.mkdir()

    settings = settings_of(etl / "dags", **environ)

    assert settings.plugins_folder() == Path(plugins.replace("/etl", str(etl)))
    projects = [etl, *([Path(more)] if more else [])]
    assert settings.module_folders() == [place for one in projects for place in (one, one / "config", one / "include")]


def test_plugins_are_looked_for_in_the_project_in_airflows_home_and_here(tmp_path: Path) -> None:
    def folder() -> Path:
        return settings_of(tmp_path / "etl" / "dags", AIRFLOW_HOME=str(tmp_path / "home")).plugins_folder()

    places = [Path.cwd() / "plugins", tmp_path / "home" / "plugins", tmp_path / "etl" / "plugins"]
    for place in places:
        place.mkdir(parents=True)
        assert folder() == place


def test_bundles_have_no_project_around_them() -> None:
    settings = load_settings({"dags.bundles": [{"name": "a", "kind": "folder", "path": "/etl/dags"}]}, environ={})

    assert settings.settings.module_folders() == []


def test_the_dags_folder_is_that_of_airflows_home_if_there_is_none_here(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "dags").mkdir(parents=True)

    def folder() -> Path:
        return load_settings({}, environ={"AIRFLOW_HOME": str(home)}).settings.core.dags_folder

    assert folder() == home / "dags"
    Path("dags").mkdir()
    assert folder() == Path("dags")


async def test_what_is_installed_and_what_is_a_folder_of_other_things_come_first(tmp_path: Path) -> None:
    write(tmp_path, "etl/msgspec/__init__.py", "raise ValueError")
    write(tmp_path, "etl/hbdocker/Dockerfile", "")
    source = "import aiosched as dag, msgspec\ntry: import hbdocker\nexcept ImportError: a = dag.DAG('d')\n"
    write(tmp_path, "etl/dags/d.py", source)

    (parsed,) = await check_paths([], settings_of(tmp_path / "etl" / "dags"))

    assert parsed.error is None
    assert [dag.dag_id for dag in parsed.dags] == ["d"]


def test_the_project_ends_at_its_mark_and_before_folders_of_everybody(tmp_path: Path) -> None:
    (tmp_path / "a" / "b" / "c" / "dags").mkdir(parents=True)
    folder = tmp_path / "a" / "b" / "c" / "dags"

    assert folders_above(folder) == [folder.parent], "nothing marks one"
    (tmp_path / "a" / "airflow.cfg").touch()
    assert folders_above(folder) == list(folder.parents[:3])
    assert folders_above(folder / "..") == list(folder.parents[1:3])
    (tmp_path / "a" / "b" / "c" / "plugins").mkdir()
    assert folders_above(folder) == [folder.parent]
    (tmp_path / "a" / "b" / "c").chmod(0o1777)
    assert folders_above(folder) == []
    assert folders_above(Path("/dags")) == []
