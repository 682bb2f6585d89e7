"""Ten questions of a person on duty: at most three clicks each, at a desk and on a phone. See `benchmarks.jobs`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Final

import asyncpg
import pytest
import pytest_asyncio
from playwright.async_api import Browser

from benchmarks.job_stage import JobStage, job_stage
from benchmarks.jobs import JOBS, MOST_CLICKS, WIDTHS, do_job
from benchmarks.processes import temporary_folders
from benchmarks.stage import Stage
from tests.browser.conftest import Tab
from tests.databases import TEMPLATE, Server

pytestmark = pytest.mark.asyncio(loop_scope="session")

SIZE: Final = 20_000  # task instances; `python -m benchmarks jobs-1m` does the same with a million
MOST_REQUESTS: Final = 40


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def made(server: Server) -> AsyncIterator[JobStage]:
    dsn = await server.create(TEMPLATE)
    conn = await asyncpg.connect(dsn)
    try:
        with temporary_folders() as folders:
            async with job_stage(Stage(folders, dsn, conn), SIZE) as made:
                yield made
    finally:
        await conn.close()
        await server.drop(dsn)


@pytest.mark.parametrize("width", WIDTHS)
async def test_each_question_is_answered_within_three_clicks_of_home(
    made: JobStage, browser: Browser, width: int, record_property: Callable[[str, object], None]
) -> None:
    context = await browser.new_context(viewport={"width": width, "height": 900})
    tab = Tab(await context.new_page(), made.url)
    for question, job in JOBS:
        done = await do_job(job, tab.page, made)
        record_property(f"{question}, {width} px", f"{done}")
        assert done.clicks <= MOST_CLICKS, question
        assert done.requests <= MOST_REQUESTS, question
    await context.close()
    assert not tab.wrong
