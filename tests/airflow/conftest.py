"""Each test starts without Airflow's names, and with the finder that answers them."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from aiosched.airflow.finder import install
from aiosched.airflow.objects import sessions
from tests.airflow.airflow_builders import clean_imports


@pytest.fixture(autouse=True)
def airflow_answered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`import airflow` is answered by aiosched."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "airflow"]:
        monkeypatch.delitem(sys.modules, name)  # of a test elsewhere
    with clean_imports():
        install("compat")
        yield


@pytest.fixture
def production() -> Iterator[None]:
    """As where no pytest runs: nobody has a session."""
    sessions.of_tests.clear()
    yield
    sessions.of_tests.set()
