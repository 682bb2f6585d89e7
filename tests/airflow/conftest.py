"""Each test starts without Airflow's names, and with the finder that answers them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from airflow_builders import clean_imports

from aiosched.airflow.finder import install


@pytest.fixture(autouse=True)
def airflow_answered() -> Iterator[None]:
    """`import airflow` is answered by aiosched."""
    with clean_imports():
        install("compat")
        yield
