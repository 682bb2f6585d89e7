"""The page of alerts in Chromium, on the real service: a rule is made, an alert opens, its failed delivery is shown."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.conftest import Service, Tab

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOSTILE = "<img src=x onerror=alert(1)> {{ 1 / 0 }} \u202e'; DROP TABLE alert; --"
BROKEN = (
    "INSERT INTO dag_file (file, partition, dag_ids, error) VALUES ('alerting.py', 0, '{yearly}', 'SyntaxError: oh')"
)


async def test_a_rule_is_made_an_alert_opens_and_the_rule_is_paused_and_deleted(service: Service, tab: Tab) -> None:
    page = await tab.open("/alerts?tab=rules")
    await page.get_by_role("button", name="New rule").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("broken files")
    await dialog.get_by_label("Watches").select_option("A run takes longer than usual")
    await expect(dialog.get_by_label("Times the usual p95")).to_be_visible()
    await dialog.get_by_label("Watches").select_option("A DAG file has an import error")
    await expect(dialog.get_by_label("Times the usual p95")).to_have_count(0)
    await expect(dialog.get_by_label("Runs")).to_have_count(0)
    await dialog.get_by_label("Severity").select_option("critical")
    await dialog.get_by_label("DAGs").fill("year*")
    await dialog.get_by_label("Name").fill("broken-files")
    await dialog.get_by_role("button", name="Save").click()
    row = page.get_by_role("row").filter(has_text="broken-files")
    await expect(row).to_contain_text("year*")
    await tab.check_access()
    await tab.picture("alerts-rules")

    await service.execute(BROKEN)
    for theme in ("light", "dark"):
        page = await tab.open("/alerts", theme)
        found = page.get_by_role("row").filter(has_text="alerting.py cannot be imported: SyntaxError: oh")
        await expect(found).to_contain_text("open")
        await tab.check_access()
        await tab.picture(f"alerts-{theme}")
    await found.get_by_role("button", name="Acknowledge").click()
    await page.get_by_role("dialog").get_by_role("button", name="I have it").click()
    await expect(found).to_contain_text("acknowledged by local")
    await found.get_by_role("button", name="Silence").click()
    await page.get_by_role("dialog").get_by_label("What").select_option("all alerts about yearly")
    await page.get_by_role("dialog").get_by_label("Reason").fill(HOSTILE)
    await tab.picture("alerts-silence-dialog")
    await page.get_by_role("dialog").get_by_role("button", name="Silence").click()
    await expect(found).to_contain_text("silenced, ends in")
    await tab.picture("alerts-silenced")
    page = await tab.open("/alerts?tab=silences")
    silence = page.get_by_role("row").filter(has_text="DAG yearly")
    await expect(silence).to_contain_text(HOSTILE)
    await tab.check_access()
    await tab.picture("alerts-silences")
    await silence.get_by_role("button", name="End the silence").click()
    await page.get_by_role("dialog").get_by_role("button", name="End silence").click()
    await expect(page.get_by_text("Nothing is silenced")).to_be_visible()
    rules = []
    while not (rules and rules[0]["error"]):
        rules = (await service.api("GET", "alert-rules"))["items"]
        await page.wait_for_timeout(100)
    assert "secret-hook" not in rules[0]["error"]

    page = await tab.open("/alerts?tab=rules")
    await page.get_by_role("button", name="Pause broken-files").click()
    await page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    await expect(row).to_contain_text("paused")
    remove = page.get_by_role("button", name="Delete broken-files")
    await expect(remove).to_have_text("Delete …")
    await expect(remove).to_have_class("button small danger")
    await remove.click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(page.get_by_text("No alert rules")).to_be_visible()
    await service.execute("DELETE FROM dag_file WHERE file = 'alerting.py'")
