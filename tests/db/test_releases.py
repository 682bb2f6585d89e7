"""What is said of a PostgreSQL that is behind, by the date alone."""

from __future__ import annotations

import subprocess
from datetime import date

import pytest

from aiosched.db.server.installations import binaries
from aiosched.db.server.releases import EMBEDDED, KNOWN, KNOWN_AT, rounds, what_is_missing


def test_rounds_are_second_thursdays_of_four_months() -> None:
    found = list(rounds(date(2025, 1, 1), date(2026, 12, 31)))

    assert found == [
        date(2025, 2, 13), date(2025, 5, 8), date(2025, 8, 14), date(2025, 11, 13),
        date(2026, 2, 12), date(2026, 5, 14), date(2026, 8, 13), date(2026, 11, 12),
    ]  # fmt: skip
    assert list(rounds(date(2026, 5, 14), date(2026, 8, 12))) == []
    assert list(rounds(date(2026, 5, 13), date(2026, 5, 14))) == [KNOWN_AT]


@pytest.mark.parametrize(
    ("version", "today", "said"),
    [
        ("18.4", date(2026, 8, 12), None),
        ("18.4", date(2026, 8, 13), "a round of fixes came out since (2026-08-13)"),
        ("18.4", date(2026, 11, 29), "2 rounds of fixes came out since (2026-08-13, 2026-11-12)"),
        ("18.5", date(2026, 11, 29), "a round of fixes came out since (2026-11-12)"),
        ("18.6", date(2026, 11, 29), None),
        ("18.9", date(2026, 11, 29), None),
        ("18.3", date(2026, 6, 1), "it is older than 18.4 of 2026-05-14"),
        ("15.1", date(2026, 8, 13), "older than 15.18 of 2026-05-14; by its project's calendar a round of fixes"),
        ("19.0", date(2026, 11, 29), None),
        ("18beta1", date(2026, 11, 29), None),
        ("19devel", date(2026, 11, 29), None),
        ("18.4 (Debian 18.4-1.pgdg13+1)", date(2026, 6, 1), None),
    ],
)
def test_a_server_that_is_behind_is_told_so(version: str, today: date, said: str | None) -> None:
    found = what_is_missing(version, today)

    assert (said in (found or "")) if said else found is None


def test_the_table_knows_the_embedded_server() -> None:
    """A new wheel needs its line here: otherwise doctor and the audit would speak of the old one."""
    told = subprocess.run([binaries() / "postgres", "--version"], capture_output=True, text=True, check=True).stdout

    assert told.split()[-1] == EMBEDDED
    major, minor = map(int, EMBEDDED.split("."))
    assert KNOWN[major] >= minor
