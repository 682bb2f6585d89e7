"""Figures of other versions of aiosched."""

from __future__ import annotations

import pytest

from aiosched.core.values.figures import read_figures
from aiosched.db.queries.schedulers import list_schedulers
from aiosched.db.server.engine import Database
from aiosched.db.statements.ownership import fleet_figures
from aiosched.web.server.exposition import exposition

HISTOGRAM = '{"count": 1, "sum": 0.5, "bounds": [1.0], "buckets": [1, 0]}'
NEWER = '{"runs": 3, "counters": {"moons": 2}, "moon": {"phase": "full"}, "histograms": {"x": ' + HISTOGRAM + "}}"
OTHERS = [
    pytest.param("[]", id="no object"),
    pytest.param('{"tasks": ["running"]}', id="another type"),
    pytest.param('{"executor": {"local": {"free": 1}}}', id="missing figure"),
    pytest.param('{"histograms": {"x": {"count": 1, "sum": 1, "bounds": [1.0], "buckets": [1]}}}', id="histogram"),
]


def test_unknown_figures_are_passed_on() -> None:
    figures = read_figures(NEWER)

    assert figures is not None
    assert figures["moon"] == {"phase": "full"}
    assert read_figures(None) is None


@pytest.mark.parametrize("document", OTHERS)
async def test_a_scheduler_with_figures_of_another_shape_is_shown_without_them(db: Database, document: str) -> None:
    async with db.acquire() as conn:
        await conn.execute(
            "INSERT INTO scheduler (name, hostname, pid, version, executor, slots, lease_expires_at, figures)"
            " VALUES ('new', 'h', 1, '9', 'local', 1, now() + interval '1 minute', $1),"
            "        ('same', 'h', 2, '0', 'local', 1, now() + interval '1 minute', $2)",
            document, NEWER,
        )  # fmt: skip

        assert [figures["runs"] for figures in await fleet_figures(conn)] == [3]

    assert [row.figures is None for row in await list_schedulers(db)] == [True, False]
    text = (await exposition(db)).decode()
    assert 'aiosched_scheduler_alive{scheduler="new"}' in text
    assert 'aiosched_dagruns_running{scheduler="same"} 3.0' in text
