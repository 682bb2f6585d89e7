"""What a scheduler remembers, compared with what a database has: whether that is older, and since when."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aiosched.core.fleet.positions import Found, LostSpan, Place, Position, is_foreign, lost_since

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
HERE, AFTER, ELSEWHERE = Place(7, 1, "0/5000"), Place(7, 2, "0/4F00"), Place(8, 1, "0/9000")

# Incarnation 5 has renewed its lease ten times, and one second after that a commit was confirmed.
SEEN = Position("fleet", 5, 10, NOON, number=1000, stored_at=NOON + SECOND, place=HERE)
AS_SEEN = Found(
    fleet="fleet", former=(), accepts_former=False, at=NOON + 9 * SECOND, issued=5, row_is_there=True, renewals=10,
    renewed_at=NOON, newest=NOON, commit="committed", place=HERE,
)  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="the same"),
        pytest.param({"renewals": 11, "renewed_at": NOON + 5 * SECOND}, id="a renewal whose answer was lost"),
        pytest.param({"place": AFTER, "first_number": 1001}, id="another timeline that has the commit"),
        pytest.param({"first_number": 5}, id="the same timeline"),
        pytest.param({"place": ELSEWHERE, "first_number": 5}, id="another PostgreSQL"),
        pytest.param({"place": ELSEWHERE, "commit": "ahead"}, id="a cut-over to another PostgreSQL"),
        pytest.param({"place": ELSEWHERE, "commit": "aborted"}, id="another PostgreSQL, where the number is of others"),
        pytest.param({"place": None, "commit": None}, id="it does not say where it is"),
        pytest.param({"commit": None}, id="a number that is too old"),
        pytest.param({"row_is_there": False, "renewals": None, "renewed_at": None, "issued": 6}, id="taken over"),
        pytest.param({"row_is_there": False, "renewals": None, "renewed_at": None, "issued": None}, id="not told"),
        pytest.param({"renewals": None, "renewed_at": None}, id="the row does not tell"),
        pytest.param({"issued": 0}, id="a sequence that went back"),
        pytest.param({"issued": 10_000}, id="a sequence that was put forward"),
        pytest.param({"newest": None}, id="nobody renews"),
        pytest.param({"fleet": "other", "renewals": 1, "commit": "ahead"}, id="a database of others"),
    ],
)
def test_nothing_is_lost_where_everything_is_there(changes: dict[str, Any]) -> None:
    assert lost_since(SEEN, replace(AS_SEEN, **changes)) is None


@pytest.mark.parametrize(
    ("changes", "begin"),
    [
        pytest.param({"renewals": 8, "renewed_at": NOON - 10 * SECOND}, NOON - 10 * SECOND, id="renewals"),
        pytest.param(
            {"renewals": 8, "renewed_at": NOON - 10 * SECOND, "place": ELSEWHERE}, NOON - 10 * SECOND, id="a restore"
        ),
        pytest.param({"renewals": 8, "renewed_at": None}, NOON, id="it does not say when"),
        pytest.param({"commit": "ahead", "place": AFTER}, NOON, id="a commit that nobody has made"),
        pytest.param({"commit": "aborted", "place": AFTER}, NOON, id="a commit that was cut off"),
        pytest.param({"commit": "in progress", "place": AFTER}, NOON, id="a commit whose number others use"),
        pytest.param({"first_number": 1000, "place": AFTER}, NOON, id="a commit whose number others have used"),
        pytest.param({"commit": "ahead"}, NOON, id="the same timeline: a snapshot of the disk"),
        pytest.param(
            {"row_is_there": False, "renewals": None, "renewed_at": None, "issued": 4, "newest": NOON - 60 * SECOND},
            NOON - 60 * SECOND,
            id="older than the scheduler itself",
        ),
        pytest.param(
            {"row_is_there": False, "renewals": None, "renewed_at": None, "issued": 4, "newest": None}, None,
            id="older than all schedulers",
        ),
        pytest.param({"renewals": 8, "renewed_at": NOON + 60 * SECOND}, NOON + SECOND, id="clocks that differ"),
        pytest.param(
            {"fleet": "copy", "former": ("x", "fleet"), "renewals": 8}, NOON, id="a restored copy that is accepted"
        ),
    ],
)  # fmt: skip
def test_what_is_not_there_is_lost(changes: dict[str, Any], begin: datetime | None) -> None:
    assert lost_since(SEEN, replace(AS_SEEN, **changes)) == LostSpan(begin, NOON + SECOND)


def test_who_has_left_is_not_there_any_more() -> None:
    left = replace(SEEN, has_left=True)

    assert lost_since(left, AS_SEEN) == LostSpan(NOON, NOON + SECOND)
    assert lost_since(left, replace(AS_SEEN, row_is_there=False, renewals=None, renewed_at=None)) is None


@pytest.mark.parametrize(
    ("fleet", "former", "accepts", "foreign"),
    [
        ("fleet", (), False, False),
        ("copy", ("fleet",), False, True),
        ("copy of it", ("fleet", "copy"), False, True),
        ("copy", ("fleet",), True, False),
        ("other", ("x",), False, False),  # of another installation: what was remembered means nothing there
    ],
)
def test_a_copy_is_for_others_until_somebody_says_otherwise(
    fleet: str, former: tuple[str, ...], accepts: bool, foreign: bool
) -> None:
    found = replace(AS_SEEN, fleet=fleet, former=former, accepts_former=accepts)

    assert is_foreign("fleet", found) is foreign
