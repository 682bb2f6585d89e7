"""Charts of figures over time in Chromium: of the fleet, of one scheduler, of a pool; gaps are gaps."""

from __future__ import annotations

import re

import asyncpg
import pytest
from playwright.async_api import expect

from tests.browser.conftest import Service, Tab

pytestmark = pytest.mark.asyncio(loop_scope="session")

# Two schedulers, an hour without figures, and hours for the week.
_MINUTES = """
    INSERT INTO figures_minute (at, incarnation, scheduler, ended, task_lag, commits, loop_lag, waiting, queued,
                                running, memory, parsing, pools)
    SELECT date_trunc('minute', now()) - n * interval '1 minute', -s, 'figures-' || s, 120, '{0,0,9,1}', '{0,3}',
           '{60}', 40, 2, 8, 1.5e8, 0.2, jsonb_build_object('charted', '[8, 6, 2, 40]'::jsonb)
      FROM generate_series(1, 1400) AS n CROSS JOIN generate_series(1, 2) AS s
     WHERE n NOT BETWEEN 300 AND 600 ON CONFLICT DO NOTHING
"""
_HOURS = """
    INSERT INTO figures_hour (at, scheduler, minutes, ended, waiting, queued, running, parsing, pools)
    SELECT date_trunc('hour', now()) - n * interval '1 hour', 'figures-1', 60, 7200, 30, 1, 6, 9,
           jsonb_build_object('charted', '[8, 5, 1, 30]'::jsonb)
      FROM generate_series(5, 150) AS n ON CONFLICT DO NOTHING
"""
# Whether the canvas of a chart has drawn something in colour.
_IS_DRAWN = """(canvas) => {
    const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    for (let i = 0; i < pixels.length; i += 4) {
        const colours = [pixels[i], pixels[i + 1], pixels[i + 2]];
        if (pixels[i + 3] > 200 && Math.max(...colours) - Math.min(...colours) > 60) return true;
    }
    return false;
}"""


async def test_figures_of_a_week_are_charted_for_the_fleet_one_scheduler_and_a_pool(service: Service, tab: Tab) -> None:
    await service.api("PUT", "pools/charted", json={"slots": 8})
    conn = await asyncpg.connect(service.dsn)
    try:
        for statement in (_MINUTES, _HOURS):
            await conn.execute(statement)

        page = await tab.open("/schedulers")
        lag = page.get_by_label("Task lag: ready to started")
        await expect(lag.locator("canvas")).to_be_visible()
        for label in ("Tasks ended per second", "Task instances", "Commits per second", "Loop lag", "Memory"):
            await expect(page.get_by_label(label, exact=True).locator("canvas")).to_be_visible()
        assert await lag.locator("canvas").evaluate(_IS_DRAWN)
        await expect(page.get_by_role("button", name="24 h")).to_have_attribute("aria-pressed", "true")
        await tab.check_access()
        await tab.picture("schedulers-history")

        for words, hours in (("1 h", 1), ("7 d", 168)):
            async with page.expect_response(re.compile(rf"/figures\?(.*&)?hours={hours}(&|$)")) as answer:
                await page.get_by_role("button", name=words, exact=True).click()
            found = await (await answer.value).json()
            assert len(found["points"]) > (50 if words == "1 h" else 140)
            await expect(lag.locator("canvas")).to_have_count(1 if words == "1 h" else 0)  # the hours have no lag
            if words == "1 h":
                assert await lag.locator("canvas").evaluate(_IS_DRAWN)
        async with page.expect_response("**/figures?*scheduler=figures-2*"):
            await page.get_by_label("Scheduler", exact=True).evaluate(
                "(select) => { select.add(new Option('figures-2')); select.value = 'figures-2';"
                " select.dispatchEvent(new Event('change', {bubbles: true})); }"
            )

        page = await tab.open("/pools?pool=charted&hours=1")
        for label in ("Slots", "Queue"):
            canvas = page.get_by_label(label, exact=True).locator("canvas")
            await expect(canvas).to_be_visible()
            assert await canvas.evaluate(_IS_DRAWN)
        await tab.check_access()
        await tab.picture("pools-history")
    finally:
        await conn.execute("DELETE FROM figures_minute WHERE incarnation < 0")
        await conn.execute("DELETE FROM figures_hour WHERE scheduler LIKE 'figures-%'")
        await conn.close()
