"""Figures over time by the API: the range, one scheduler, a pool that one may see; few points."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from aiosched.core.figures.ranges import MOST_POINTS
from aiosched.db.server.engine import Database

# Two days of three schedulers with ten busy pools, and a hundred days of their hours.
_FILL = """
    INSERT INTO figures_{table} (at, {key}, ended, task_lag, commits, loop_lag, waiting, queued, running, memory,
                                 parsing, pools)
    SELECT date_trunc('{table}', now()) - n * interval '1 {table}', {keys}, 60, '{{0,0,0,5,5,2,1}}', '{{3,4,1}}',
           '{{60}}', 9, 1, 4, 1e8, 0.1, p.pools
      FROM generate_series(1, $1::int) AS n CROSS JOIN generate_series(1, 3) AS s
     CROSS JOIN (SELECT jsonb_object_agg('pool' || i, '[8, 4, 1, 3]'::jsonb) AS pools
                   FROM generate_series(1, 10) AS i) AS p
"""


@pytest.fixture
async def site(app: FastAPI, db: Database) -> Any:
    async with db.acquire() as conn:
        await conn.execute("INSERT INTO pool (name, slots) VALUES ('pool1', 8)")
        minute = _FILL.format(table="minute", key="incarnation, scheduler", keys="s, 's' || s")
        await conn.execute(minute, 3_000)
        await conn.execute(_FILL.format(table="hour", key="minutes, scheduler", keys="60, 's' || s"), 2_400)
        await conn.execute("ANALYZE")
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost/api/v1/") as client:
        yield client


async def test_a_range_has_few_points(site: httpx2.AsyncClient) -> None:
    for hours, step in ((1, 60), (24, 300), (168, 3600), (2160, 86_400)):
        for path in (f"figures?hours={hours}", f"pools/pool1/figures?hours={hours}"):
            found = (await site.get(path)).json()

            assert (path, found["step"]) == (path, step)
            assert 50 <= len(found["points"]) <= MOST_POINTS, path


async def test_figures_are_those_of_all_schedulers_or_of_one(site: httpx2.AsyncClient) -> None:
    fleet = (await site.get("figures?hours=1")).json()["points"][10]
    one = (await site.get("figures?hours=1&scheduler=s2")).json()["points"][10]
    pool = (await site.get("pools/pool1/figures?hours=1")).json()["points"][10]

    assert (fleet["schedulers"], fleet["ended_per_second"], fleet["waiting"]) == (3, 3, 27)
    assert (one["schedulers"], one["ended_per_second"], one["memory"]) == (1, 1, 1e8)
    assert 0.0004 < one["lag_p50"] < one["lag_p99"] < 0.0065
    assert (pool["slots"], pool["used"], pool["open"], pool["waiting"]) == (8, 4, 4, 9)
    assert (await site.get("figures?scheduler=nobody")).json()["points"] == []


async def test_what_is_not_there_is_refused(api: httpx2.AsyncClient) -> None:
    assert (await api.get("figures?hours=0")).status_code == 422
    assert (await api.get("pools/none/figures")).status_code == 404
