"""Who answers `import airflow`: the setting, an Airflow that is installed, provider packages; and what it costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from aiosched.authoring.base.settings import AuthoringDefaults
from tests.airflow.airflow_builders import load, using

SHOW = "import airflow; print(airflow.__version__, airflow.DAG.__module__)"


def python(code: str, *, path: Path | None = None) -> str:
    """The output of `code` in a fresh interpreter, `path` on its `sys.path`; its errors if it fails."""
    before = f"import sys; sys.path.insert(0, {str(path)!r})\n" if path else "import sys\n"
    ended = subprocess.run([sys.executable, "-c", before + code], capture_output=True, text=True, check=False)
    return ended.stdout.strip() or ended.stderr.strip()


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of installed packages, with an Airflow."""
    airflow = tmp_path / "site" / "airflow"
    (airflow / "models").mkdir(parents=True)
    (airflow / "__init__.py").write_text("from airflow.models import DAG\n__version__ = '9.9.9'\n")
    (airflow / "models" / "__init__.py").write_text("class DAG: ...\n")
    (airflow / "www.py").write_text("")
    return tmp_path / "site"


def provider(site: Path, module: str, code: str) -> None:
    """Add a module of a provider package to the installed packages."""
    path = site / f"{module.replace('.', '/')}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / "__init__.py").write_text("")
    path.write_text(code)


def install(mode: str) -> str:
    return f"from aiosched.airflow.finder import install; install({mode!r})\n"


@pytest.mark.parametrize(
    ("mode", "answer"),
    [
        ("compat", "3.3.2 aiosched.authoring.dag.dag"),
        ("installed", "9.9.9 airflow.models"),
        ("off", "9.9.9 airflow.models"),
    ],
)
def test_with_an_airflow_installed_the_setting_says_who_answers(site: Path, mode: str, answer: str) -> None:
    assert python(install(mode) + SHOW, path=site) == answer


@pytest.mark.parametrize(
    ("mode", "answer"),
    [
        ("compat", "3.3.2 aiosched.authoring.dag.dag"),
        ("installed", "3.3.2 aiosched.authoring.dag.dag"),
        ("off", "No module named 'airflow'"),
    ],
)
def test_without_one_aiosched_answers_unless_it_is_off(tmp_path: Path, mode: str, answer: str) -> None:
    assert answer in python(install(mode) + SHOW, path=tmp_path)


@pytest.mark.parametrize(("code", "warned"), [("from airflow import DAG", True), ("import json", False)])
def test_a_file_whose_dags_an_installed_airflow_made_says_so(
    site: Path, tmp_path: Path, code: str, warned: bool
) -> None:
    (tmp_path / "dag.py").write_text(code)
    load_it = (
        f"from pathlib import Path; root = Path({str(tmp_path)!r})\n"
        f"{install('installed')}"
        "from aiosched.authoring.dag.loader import load_file\n"
        "print(*load_file(root / 'dag.py', root=root).warnings)"
    )

    shown = python(load_it, path=site)

    place = str(site / "airflow")
    assert (f"`import airflow` was answered by the Airflow in {place}" in shown) == warned
    assert bool(shown) == warned


def test_modules_of_an_installed_airflow_are_not_mixed_with_ours(site: Path) -> None:
    assert "aiosched answers `airflow`" in python(install("compat") + "import airflow.www.views", path=site)


def test_an_installed_provider_package_is_found_and_has_our_base_classes(site: Path) -> None:
    provider(site, "airflow.providers.acme.operators.acme", "from airflow.models import BaseOperator\n"
             "class AcmeOperator(BaseOperator): ...\n")  # fmt: skip
    code = "from airflow.providers.acme.operators.acme import AcmeOperator as A; print(A.__mro__[1].__module__)"

    assert python(install("compat") + code, path=site) == "aiosched.authoring.tasks.operator"


def test_an_installed_provider_package_wins_over_our_basics(site: Path) -> None:
    code = "from airflow.providers.http.operators.http import HttpOperator as A; print(A.__module__)"
    ours = python(install("compat") + code, path=site)
    provider(site, "airflow.providers.http.operators.http", "class HttpOperator: ...\n")
    (site / "airflow" / "providers" / "http" / "__init__.py").write_text("")

    assert ours == "aiosched.authoring.operators.http"
    assert python(install("compat") + code, path=site) == "airflow.providers.http.operators.http"


def test_questions_to_people_are_ours_also_beside_the_standard_provider(site: Path) -> None:
    for kind in ("operators", "triggers"):
        provider(site, f"airflow.providers.standard.{kind}.hitl", "import airflow.sdk.execution_time.hitl\n")
    code = (
        "from airflow.providers.standard.operators.hitl import ApprovalOperator as A\n"
        "from airflow.providers.standard.triggers.hitl import HITLTrigger as T\n"
        "print(A.__module__, T.__module__)"
    )

    ours = "aiosched.authoring.operators.human_input aiosched.authoring.triggers.human_input"
    assert python(install("compat") + code, path=site) == ours


def test_an_error_inside_a_provider_package_is_shown_as_it_is(site: Path) -> None:
    provider(site, "airflow.providers.acme.hooks.acme", "import no_such_library\n")

    assert "No module named 'no_such_library'" in python(
        install("compat") + "import airflow.providers.acme.hooks.acme", path=site
    )


def test_a_file_without_airflow_imports_nothing_of_it(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("from aiosched import DAG\nwith DAG('d'): ...\n")
    code = (
        f"from pathlib import Path; root = Path({str(tmp_path)!r})\n"
        f"{install('compat')}"
        "from aiosched.authoring.dag.loader import load_file\n"
        "load_file(root / 'plain.py', root=root)\n"
        "print(*sorted(name for name in sys.modules if name.startswith('aiosched.airflow.')))"
    )

    assert python(f"import sys\n{code}") == "aiosched.airflow.finder aiosched.airflow.installed"


def test_a_worker_or_parser_with_the_setting_off_does_not_answer(tmp_path: Path) -> None:
    with using(AuthoringDefaults(airflow="off")), pytest.raises(ImportError, match="airflow"):
        load(tmp_path, "from airflow import DAG")


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "owner"), [(None, "airflow.models"), ("compat", "aiosched.authoring.dag.dag")])
def test_in_pytest_an_installed_airflow_answers_unless_the_setting_is_given(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str | None, owner: str
) -> None:
    (tmp_path / "test_it.py").write_text(
        f"from airflow import DAG\ndef test_it(): assert DAG.__module__ == {owner!r}\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(site))
    if mode is not None:
        monkeypatch.setenv("AIOSCHED__CORE__AIRFLOW", mode)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]

    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert "1 passed" in ended.stdout, ended.stdout


@pytest.mark.parametrize("place", ["airflow.sdk", "airflow.io.path", "airflow.sdk.io.path"])
def test_paths_of_object_storage_are_imported_without_their_library_and_say_so_when_used(place: str) -> None:
    said = python(f"""
sys.modules["upath"] = None
from aiosched.airflow.finder import install
install("compat")
from {place} import ObjectStoragePath
print("imported", flush=True)
try:
    ObjectStoragePath("s3://a/b", conn_id="c")
except ImportError as error:
    print(error)
""")

    assert said.splitlines() == [
        "imported",
        "ObjectStoragePath needs universal_pathlib: `pip install 'aiosched[object-storage]'`.",
    ]


EDITABLE = """
import sys
from importlib.util import spec_from_file_location
class Editable:  # as an editable installation leaves it
    FILES = {{"airflow.providers.mine": "mine/__init__.py", "airflow.providers.mine.hooks": "mine/hooks.py",
             "airflow.ours": "ours.py"}}
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        return spec_from_file_location(fullname, "{folder}/" + cls.FILES[fullname]) if fullname in cls.FILES else None
sys.meta_path.append(Editable)
from aiosched.airflow.finder import install
install("compat")
"""


def test_packages_below_airflow_that_another_finder_knows_are_found(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text("")
    (tmp_path / "mine" / "hooks.py").write_text("from airflow.sdk import BaseHook\nclass MineHook(BaseHook): ...\n")
    (tmp_path / "ours.py").write_text("NAME = 'ours'\n")
    before = EDITABLE.format(folder=tmp_path)

    assert python(f"{before}from airflow.providers.mine.hooks import MineHook as M; print(M.__module__)") == (
        "airflow.providers.mine.hooks"
    )
    assert python(f"{before}from airflow.ours import NAME; print(NAME)") == "ours"
    assert "No module named 'airflow.providers.mine.missing'" in python(
        f"{before}import airflow.providers.mine.missing"
    )
