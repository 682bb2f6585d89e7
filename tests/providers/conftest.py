"""Folders with provider packages, installed by `aiosched providers install`, and DAG files that use them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import NIGHTLY
from tests.providers.walk import Walked

COMMAND = (sys.executable, "-m", "aiosched", "providers", "install", "--target")
PATIENCE = 1_800  # seconds for an installation

NIGHT = [  # marks of a file whose tests install much
    pytest.mark.skipif(not NIGHTLY, reason="installs many packages: set AIOSCHED_NIGHTLY=1"),
    pytest.mark.timeout(3_600),
]

Run = Callable[..., Mapping[str, Any]]


def installed(folder: Path, packages: Sequence[str]) -> Path:
    """`folder` with these packages. AIOSCHED_TEST_PROVIDERS names a folder to keep between sessions."""
    kept = os.environ.get("AIOSCHED_TEST_PROVIDERS")
    folder = Path(kept) if kept else folder
    done = subprocess.run(
        [*COMMAND, str(folder), *packages], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    if "cannot be reached" in done.stderr:
        pytest.skip(f"the package index cannot be reached: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def three_providers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the providers for HTTP, SQLite and SMTP, and what they require."""
    names = ("apache-airflow-providers-http", "apache-airflow-providers-sqlite", "apache-airflow-providers-smtp")
    return installed(tmp_path_factory.mktemp("providers") / "three", names)


@pytest.fixture
def run_file(tmp_path: Path) -> Run:
    """Writes a DAG file and runs it with the providers of a folder: its state and tasks. More are its environment."""

    def run(folder: Path, source: str, **environment: str) -> Mapping[str, Any]:
        file = tmp_path / "dags" / "used.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(source, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "tests.providers.run_file", str(folder), str(file)],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        assert done.returncode == 0, done.stderr
        found: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    return run


def walked(folder: Path, packages: Sequence[str]) -> dict[str, list[Walked]]:
    """The classes of these packages by package, and what became of each."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.providers.walk", str(folder), *packages],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[Walked]] = {package: [] for package in packages}
    for line in done.stdout.splitlines():
        one = json.loads(line)
        found[one.pop("package")].append(Walked(**one))
    return found
