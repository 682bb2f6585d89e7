"""The fixture `bench`: a parser with a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiosched.clock import FakeClock
from aiosched.db.server.engine import Database
from tests.parsing.bench import Bench


@pytest.fixture
def bench(tmp_path: Path, db: Database, clock: FakeClock, kept_supervisors: None) -> Bench:
    folder = tmp_path / "dags"
    folder.mkdir()
    return Bench(folder, db, clock)
