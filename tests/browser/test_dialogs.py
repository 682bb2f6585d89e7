"""Dialogs of actions in Chromium: what closes them, what they keep, and what they report."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from tests.browser.conftest import Service, Tab

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def mark(service: Service, run_id: str) -> None:
    """Mark a failed run of troubled and wait until it has succeeded."""
    await service.api("POST", f"dags/troubled/runs/{run_id}/tasks/divide/mark", json={"state": "success"})
    await service.until("troubled", run_id, "success")


async def test_text_selected_beyond_the_edge_of_a_dialog_does_not_close_it(tab: Tab) -> None:
    page = await tab.open("/pools")
    await page.get_by_role("button", name="New pool …").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("long name")

    await dialog.get_by_label("Name").hover()
    await page.mouse.down()
    await page.mouse.move(5, 5)
    await page.mouse.up()
    await expect(dialog.get_by_label("Name")).to_have_value("long name")
    await page.mouse.click(5, 5)

    await expect(dialog).to_have_count(0)


async def test_a_dialog_reports_what_was_cleared_not_what_it_had_announced(service: Service, tab: Tab) -> None:
    await service.run("troubled", "failed", "mended")
    page = await tab.open("/dags/troubled/runs/mended")
    await page.get_by_role("button", name="Rerun failed").click()
    button = page.get_by_role("dialog").get_by_role("button", name=re.compile(r"Clear \d"))
    await expect(button).to_be_visible()
    await mark(service, "mended")

    await button.click()

    await expect(page.get_by_text("Nothing was cleared")).to_be_visible()


async def test_an_action_on_many_runs_reports_how_many_it_touched(service: Service, tab: Tab) -> None:
    await service.run("troubled", "failed", "many-1")
    await service.run("troubled", "failed", "many-2")
    page = await tab.open("/runs?search=many-")
    await page.get_by_label("Select all rows").check()
    await page.get_by_role("button", name="Clear", exact=True).click()
    button = page.get_by_role("dialog").get_by_role("button", name=re.compile(r"Clear \d"))
    await expect(button).to_be_visible()
    await mark(service, "many-1")

    await button.click()

    await expect(page.get_by_text("Done: clear 1 run.")).to_be_visible()


async def test_a_dialog_keeps_the_rows_that_were_selected_when_it_was_opened(service: Service, tab: Tab) -> None:
    await service.run("troubled", "failed", "kept-1")
    await service.run("troubled", "failed", "kept-2")
    page = await tab.open("/runs?search=kept-&state=failed")
    await page.get_by_label("Select all rows").check()
    await page.get_by_role("button", name="Note", exact=True).click()
    dialog = page.get_by_role("dialog", name="Note 2 runs")
    await dialog.get_by_label("Note").fill("looked at")

    for number, run_id in ((1, "kept-1"), (0, "kept-2")):
        await mark(service, run_id)
        await expect(page.get_by_label(re.compile("Select troubled"))).to_have_count(number)
    await dialog.get_by_role("button", name="Note 2 runs").click()

    await expect(page.get_by_text("Done: note 2 runs.")).to_be_visible()
    for run_id in ("kept-1", "kept-2"):
        assert (await service.api("GET", f"dags/troubled/runs/{run_id}"))["note"] == "looked at"


async def test_a_note_that_somebody_has_written_meanwhile_is_shown_beside_ones_own(service: Service, tab: Tab) -> None:
    run = (await service.api("POST", "dags/troubled/runs", json={}))["run_id"]
    place = f"dags/troubled/runs/{run}/note"
    await service.api("PUT", place, json={"note": ""})
    page = await tab.open(f"/dags/troubled/runs/{run}")
    await page.get_by_role("button", name="Add note").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("What others should know").fill("mine")
    await service.api("PUT", place, json={"note": "theirs"})

    await dialog.get_by_role("button", name="Save").click()
    beside = dialog.get_by_role("group", name="Stored meanwhile")
    await expect(beside.get_by_role("cell")).to_have_text(["theirs", "mine"])
    await dialog.get_by_role("button", name="Save").click()

    await expect(dialog).to_be_hidden()
    assert (await service.api("GET", f"dags/troubled/runs/{run}"))["note"] == "mine"
    tab.expected.append("409")
    await service.api("PUT", place, json={"note": ""})
