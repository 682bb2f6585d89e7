"""Which packages an installation of providers consists of, from their requirements alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from typer.testing import CliRunner

from aiosched.cli.app import app
from aiosched.cli.base.options import UsageProblem
from aiosched.cli.operation import provider_tools, providers
from aiosched.cli.operation.provider_plan import Fetched, ProviderPlan, make_plan, parse_requirements, read_distribution
from aiosched.cli.operation.provider_tools import Installer
from aiosched.errors import AioschedError, NotFound

AIRFLOW = "apache-airflow>=2.11.0"
HTTP = "apache-airflow-providers-http"
COMPAT = "apache-airflow-providers-common-compat"


def package(name: str, version: str, *requires: str, imports: tuple[str, ...] = ()) -> Fetched:
    return Fetched(name, version, tuple(map(Requirement, requires)), frozenset(imports))


def index(*packages: Fetched) -> Callable[[str], Fetched]:
    """The newest of the packages that fits a requirement, as an index answers."""

    def fetch(text: str) -> Fetched:
        wanted = Requirement(text)
        fitting = [one for one in packages if one.name == wanted.name and wanted.specifier.contains(one.version)]
        if not fitting:
            raise NotFound(text)
        return fitting[-1]

    return fetch


def planned(wanted: list[str], *packages: Fetched) -> ProviderPlan:
    return make_plan(parse_requirements(wanted), index(*packages))


def test_airflow_is_left_out_and_other_providers_are_followed() -> None:
    plan = planned(
        [HTTP],
        package(HTTP, "6.3.0", AIRFLOW, f"{COMPAT}>=1.17.0", "requests>=2.32"),
        package(COMPAT, "1.23.0", AIRFLOW, "asgiref>=2.3"),
    )

    assert [one.pin for one in plan.packages.values()] == [f"{HTTP}==6.3.0", f"{COMPAT}==1.23.0"]
    assert list(plan.requirements) == ["requests>=2.32", "asgiref>=2.3"]
    assert plan.left_out == {"apache-airflow"}
    assert plan.warnings == []


def test_the_parts_of_airflow_are_left_out_too() -> None:
    plan = planned(
        [HTTP], package(HTTP, "6.3.0", "apache-airflow-core>=3", "apache-airflow-task-sdk>=1.0; python_version>'3'")
    )

    assert plan.left_out == {"apache-airflow-core", "apache-airflow-task-sdk"}
    assert plan.requirements == {}


def test_libraries_that_airflow_brings_are_added_when_they_are_imported() -> None:
    plan = planned([HTTP], package(HTTP, "6.3.0", "attrs", imports=("tenacity", "attr", "yaml", "unknown_library")))

    assert set(plan.requirements) == {"attrs", "tenacity", "PyYAML"}


def test_imports_are_found_wherever_they_are_but_not_those_of_type_checkers(tmp_path: Path) -> None:
    metadata = tmp_path / "a_provider-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: a-provider\nVersion: 1.0\n")
    (metadata / "RECORD").write_text("hooks.py,,\n")
    (tmp_path / "hooks.py").write_text(
        "import os\nfrom typing import TYPE_CHECKING\n"
        "try:\n    import dill\nexcept ImportError:\n    import lazy_object_proxy\n"
        "def show():\n    from tabulate import tabulate\n"
        "if TYPE_CHECKING:\n    import pandas\nelse:\n    import attr\n"
    )
    [distribution] = distributions(path=[str(tmp_path)])

    assert read_distribution(distribution).imports == {"dill", "lazy_object_proxy", "tabulate", "attr"}


def test_requirements_of_extras_and_markers_are_followed_only_where_they_apply() -> None:
    http = package(HTTP, "6.3.0", 'dnspython>=2; extra == "srv"', 'old; python_version < "3"')

    assert list(planned([HTTP], http).requirements) == []
    assert list(planned([f"{HTTP}[srv]"], http).requirements) == ["dnspython>=2"]


def test_a_provider_gets_a_version_that_fits_all_that_require_it() -> None:
    plan = planned(
        ["a-provider", HTTP],
        package("a-provider", "1.0", f"{COMPAT}>=1"),
        package(HTTP, "6.3.0", f"{COMPAT}<1.20"),
        package(COMPAT, "1.17.0"),
        package(COMPAT, "1.23.0"),
    )

    assert plan.packages[COMPAT].version == "1.17.0"


@dataclass
class Recorder:
    """An installer that has one package, and writes down what it is asked to install."""

    package: Fetched
    asked: list[list[str]] = field(default_factory=list)

    def read(self, requirement: str) -> Fetched:
        return self.package

    def install(self, requirements: Sequence[str], *, alone: bool) -> None:
        self.asked.append([*requirements])


@pytest.mark.parametrize(
    ("requires", "asked"),
    [
        (("pytest>=1", "no-such-library>=1"), ["pytest>=1", "no-such-library>=1"]),
        (("pytest>=1",), []),
        (("SQLAlchemy[asyncio]>=2",), []),  # an extra of aiosched's own, so that it is there
        (("SQLAlchemy[oracle]>=2",), ["SQLAlchemy[oracle]>=2"]),
    ],
)
def test_what_is_there_is_resolved_together_with_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, requires: tuple[str, ...], asked: list[str]
) -> None:
    recorder = Recorder(package(HTTP, "6.3.0", *requires))
    monkeypatch.setattr(Installer, "found", lambda target: recorder)

    done = CliRunner().invoke(app, ["providers", "install", HTTP])

    assert done.exit_code == 0, done.output
    assert recorder.asked == [asked, [f"{HTTP}==6.3.0"]]


def test_what_aiosched_needs_and_no_longer_has_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    needs = [
        "pytest>=99",
        "no-such-library[extra]>=1",
        "pytest>=1",
        "gone>=1; extra == 'more'",
        "other; python_version < '3'",
    ]
    monkeypatch.setattr(Installer, "found", lambda target: Recorder(package(HTTP, "6.3.0")))
    monkeypatch.setattr(providers.metadata, "requires", lambda name: needs)

    done = CliRunner().invoke(app, ["providers", "install", HTTP])

    warnings = [line for line in done.stderr.splitlines() if line.startswith("warning: aiosched needs")]
    assert [line.split(" is installed")[0] for line in warnings] == [
        f"warning: aiosched needs pytest>=99, and {pytest.__version__}",
        "warning: aiosched needs no-such-library>=1, and none",
    ]
    assert "--target" in warnings[0]


def write_distribution(folder: Path, version: str, *files: str) -> None:
    info = folder / f"library-{version}.dist-info"
    info.mkdir(parents=True)
    names = [f"library/{name}" for name in files]
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(version)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: library\nVersion: {version}\n")
    (info / "RECORD").write_text("".join(f"{name},,\n" for name in (*names, f"{info.name}/METADATA")))


def test_another_version_of_a_library_in_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    write_distribution(tmp_path / "site", "1.0", "same.py", "gone.py")
    write_distribution(tmp_path / "new", "2.0", "same.py", "fresh.py")
    # It is called with --compile --target FOLDER: workers may not be allowed to write bytecode there.
    copies = ("sh", "-c", f'[ "$0" = --compile ] && cp -r {tmp_path}/new/. "$2"')

    Installer(copies, tmp_path / "site").install(["library"], alone=False)

    files = {str(file.relative_to(tmp_path / "site")) for file in (tmp_path / "site").rglob("*") if file.is_file()}
    assert files == {
        "library/same.py", "library/fresh.py", "library-2.0.dist-info/METADATA", "library-2.0.dist-info/RECORD",
    }  # fmt: skip
    assert [one.version for one in distributions(path=[str(tmp_path / "site")])] == ["2.0"]


def test_a_provider_for_another_airflow_is_warned_of() -> None:
    plan = planned([HTTP], package(HTTP, "1.0.0", "apache-airflow<2"))

    assert "is made for apache-airflow<2" in plan.warnings[0]


@pytest.mark.parametrize("text", ["apache-airflow", "Apache_Airflow-core==3.3.2", "not a package!"])
def test_what_is_no_provider_is_refused(text: str) -> None:
    with pytest.raises(UsageProblem):
        parse_requirements([text])


@pytest.mark.parametrize(
    ("said", "kind", "message"),
    [
        ("ERROR: No matching distribution found for nothing", NotFound, "has no nothing.* named apache-airflow-pro"),
        ("WARNING: Retrying after connection broken\nERROR: No matching distribution found", AioschedError, "reached"),
        ("error: the disk is full", AioschedError, "could not install nothing"),
    ],
)
def test_what_the_installer_says_becomes_an_error_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, said: str, kind: type[Exception], message: str
) -> None:
    installer = Installer(("sh", "-c", f"printf '%s' '{said}' >&2; exit 1"))
    monkeypatch.setattr(provider_tools, "Installer", installer)

    with pytest.raises(kind, match=message):
        installer.fetch("nothing")
