"""A DAG in quarantine in Chromium, on the real service: its banner, its mark in lists, and its release."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from aiosched import __version__
from tests.browser.conftest import Service, Tab

pytestmark = pytest.mark.asyncio(loop_scope="session")

HELD = f"""
    INSERT INTO dag_quarantine (dag_id, failures, since, retry_at, place, error, traceback, version, dag_version_id)
    SELECT dag_id, 2, now() - interval '45 s', now() + interval '1 h', 'the evaluation', 'KeyError: ''load''',
           E'Traceback (most recent call last):\\n  File "board.py", line 7, in evaluate\\nKeyError: ''load''\\n',
           '{__version__}', version_id
      FROM dag WHERE dag_id = 'yearly'
"""


async def test_a_dag_in_quarantine_says_why_and_is_released(service: Service, tab: Tab) -> None:
    page = await tab.open("/dags/yearly")
    banner = page.get_by_role("alert").filter(has_text="in quarantine")
    await expect(page.get_by_role("heading", name="yearly")).to_be_visible()
    await expect(banner).to_have_count(0)

    await service.execute(HELD)

    await expect(banner).to_contain_text("Failed in the evaluation, 2 times in a row: KeyError: 'load'")
    await expect(banner).to_contain_text(re.compile("In quarantine since .*; it is tried again in (1\\sh|5\\d\\sm)"))
    for theme in ("light", "dark"):
        await tab.open("/dags/yearly", theme)
        await banner.get_by_text("Traceback", exact=True).click()
        await expect(banner).to_contain_text('File "board.py", line 7, in evaluate')
        await tab.check_access()
        await tab.picture(f"quarantine-{theme}")

    await banner.get_by_role("button", name="Release").click()

    await expect(page.get_by_text("yearly is released: its scheduler tries it again.")).to_be_visible()
    await expect(banner).to_have_count(0)
    assert (await service.api("GET", "dags/yearly"))["quarantine"] is None
    await service.execute("DELETE FROM dag_quarantine")


async def test_lists_mark_it_and_the_first_page_leads_to_it(service: Service, tab: Tab) -> None:
    await service.execute(HELD)
    page = await tab.open("/dags?status=quarantine")
    row = page.get_by_role("row").filter(has_text="yearly")
    await expect(row.get_by_text("quarantine", exact=True)).to_be_visible()
    await expect(page.get_by_role("row")).to_have_count(2)
    await tab.check_access()
    await tab.picture("quarantine-dags")

    page = await tab.open("/")
    found = page.get_by_role("listitem").filter(has_text="DAG 'yearly' is in quarantine")
    await expect(found).to_contain_text("the evaluation failed (KeyError: 'load')")
    await found.get_by_role("link", name="View DAG").click()
    await expect(page).to_have_url(re.compile("/dags/yearly$"))
    await service.execute("DELETE FROM dag_quarantine")
