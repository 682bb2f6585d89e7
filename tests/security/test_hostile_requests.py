"""A short form of fuzz.py: hostile requests as each role at a real web server, with a scheduler beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import NIGHTLY, NIGHTLY_TIMEOUT
from tests.security.fuzz import fuzz

REQUESTS = 100_000 if NIGHTLY else 1_500


@pytest.mark.timeout(NIGHTLY_TIMEOUT if NIGHTLY else 900)
def test_no_request_of_any_role_makes_it_fail_or_grow(dsn: str, tmp_path: Path) -> None:
    found = fuzz(dsn, tmp_path / "work", requests=REQUESTS, seed=7)

    assert found.violations() == []
    assert found.requests >= REQUESTS
    assert len(found.operations) > 90
    assert found.statuses[200] > REQUESTS / 10
