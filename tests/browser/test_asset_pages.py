"""The pages of assets: the list, one asset and its events, the lineage."""

from __future__ import annotations

import re

import asyncpg
import pytest
from playwright.async_api import expect

from tests.browser.conftest import Service, Tab

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_an_event_is_emitted_and_the_lineage_drawn(service: Service, tab: Tab) -> None:
    page = await tab.open("/assets/report")

    await page.get_by_role("button", name="Emit an event …").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_role("link", name="waiting")).to_be_visible()
    await dialog.get_by_label("Extra").fill('{"rows": 3')
    await expect(dialog.get_by_role("button", name="Emit")).to_be_disabled()
    await dialog.get_by_label("Extra").fill('{"rows": 3}')
    await dialog.get_by_role("button", name="Emit").click()

    await expect(page.get_by_role("row").filter(has_text='{"rows":3}')).to_contain_text("a user")
    await page.goto(service.url + "/assets?tab=lineage")
    await expect(page.get_by_role("link", name="asset report")).to_be_visible()
    await page.get_by_role("link", name="DAG waiting").click()
    await expect(page).to_have_url(re.compile("/dags/waiting$"))


async def test_an_asset_that_is_only_a_uri_is_found_shown_and_emitted(tab: Tab) -> None:
    name = "s3://bucket/fig #1.csv"
    page = await tab.open("/assets")
    await page.get_by_role("link", name=name).click()
    await expect(page.get_by_role("heading", level=1)).to_have_text(name)
    await expect(page.get_by_role("definition").filter(has_text=re.compile(r"^making$"))).to_be_visible()

    await page.goto(tab.url + "/pools")
    await page.get_by_role("button", name="Search").click()
    await page.get_by_role("combobox", name="Search").fill("fig #1")
    await page.get_by_role("option", name=name).click()
    await page.reload()
    await page.get_by_role("button", name="Emit an event …").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Extra").fill('{"sheet": 5}')
    await dialog.get_by_role("button", name="Emit").click()

    await expect(page.get_by_role("row").filter(has_text='{"sheet":5}')).to_contain_text("a user")


async def test_an_asset_that_does_not_exist_has_nothing_to_emit(tab: Tab) -> None:
    tab.expected.append("404")
    page = await tab.open("/assets/nothing")
    await expect(page.get_by_role("alert").first).to_contain_text("nothing")
    await expect(page.get_by_role("button", name="Emit an event …")).to_have_count(0)


async def test_assets_and_their_events_are_read_by_pages(service: Service, tab: Tab) -> None:
    conn = await asyncpg.connect(service.dsn)
    try:
        await conn.execute(
            "INSERT INTO asset (name, uri)"
            " SELECT name, 'file:///' || name FROM generate_series(1, 120) AS n, to_char(n, '\"many-\"FM000') AS name"
        )
        await conn.execute(
            "INSERT INTO asset_event (asset_id, timestamp, extra)"
            " SELECT asset.id, timestamptz '2026-01-01 00:00Z' + n * interval '1 minute', json_build_object('n', n)"
            " FROM asset, generate_series(1, 120) AS n WHERE name = 'many-120'"
        )
        page = await tab.open("/assets")
        await expect(page.get_by_role("link", name=re.compile("many-"))).to_have_count(100)
        await page.get_by_role("button", name="Show more").click()
        await expect(page.get_by_role("link", name=re.compile("many-"))).to_have_count(120)
        await expect(page.get_by_role("link", name="report", exact=True)).to_be_visible()

        await page.get_by_role("link", name="many-120").click()
        events = page.get_by_role("table", name="Events").get_by_role("row")
        await expect(events).to_have_count(1 + 100)
        await expect(events.nth(1)).to_contain_text('{"n":120}')
        await page.get_by_role("button", name="Show more").click()
        await expect(events).to_have_count(1 + 120)
        await expect(events.last).to_contain_text('{"n":1}')
        await expect(page.get_by_role("button", name="Show more")).to_have_count(0)
    finally:
        await conn.execute("DELETE FROM asset WHERE name LIKE 'many-%'")
        await conn.close()


async def test_the_catalogue_has_groups_owners_and_what_the_last_events_say(service: Service, tab: Tab) -> None:
    conn = await asyncpg.connect(service.dsn)
    try:
        about = '{"description": "Orders that are paid", "owners": ["ada"]}'
        await conn.execute("INSERT INTO asset (name, uri, extra, group_name) VALUES ('paid', 'x', $1, 'sales')", about)
        await conn.execute(
            "INSERT INTO asset_event (asset_id, timestamp, extra)"
            " SELECT id, now() - n * interval '1 minute', json_build_object('rows', 3000 - n)"
            " FROM asset, generate_series(1, 2) AS n WHERE name = 'paid'"
        )
        page = await tab.open("/assets", width=1440)
        await page.get_by_role("searchbox", name="Search assets").fill("ada")
        await expect(page.get_by_role("row")).to_have_count(2)
        row = page.get_by_role("row").filter(has_text="Orders that are paid")
        await page.get_by_role("searchbox", name="Search assets").fill("")
        await row.get_by_role("link", name="sales").click()
        await expect(page.get_by_role("button", name="Group is sales: change")).to_be_visible()
        await expect(page.get_by_role("row")).to_have_count(2)
        await tab.looks_well("assets-of-a-group")

        await page.get_by_role("link", name="paid", exact=True).click()
        metadata = page.get_by_role("group", name="Metadata").get_by_role("row").last
        await expect(metadata.get_by_role("cell")).to_have_text(["2999", "2998"])
        await expect(page.get_by_role("definition").filter(has_text=re.compile(r"^ada$"))).to_be_visible()
        await tab.looks_well("asset-of-a-group")
    finally:
        await conn.execute("DELETE FROM asset WHERE name = 'paid'")
        await conn.close()


async def test_missing_partitions_are_seen_in_a_grid_of_dates_and_chosen(service: Service, tab: Tab) -> None:
    conn = await asyncpg.connect(service.dsn)
    try:
        await conn.execute("INSERT INTO asset (name, uri) VALUES ('daily', 'x'), ('regional', 'x')")
        await conn.execute(
            "INSERT INTO asset_event (asset_id, timestamp, partition_key)"
            " SELECT a.id, now(), k.key FROM asset AS a JOIN (VALUES ('daily', '2026-02-27'), ('daily', '2026-03-02'),"
            " ('regional', 'us'), ('regional', '2026-02-30')) AS k (name, key) USING (name)"
        )
        await conn.execute(
            "INSERT INTO asset_reference (dag_id, role, kind, name, task_id, uri)"
            " VALUES ('making', 'outlet', 'asset', 'daily', 't', 'x')"
        )
        page = await tab.open("/assets/daily", width=1440)
        grid = page.get_by_role("group", name="Partitions")
        await expect(grid.get_by_role("button")).to_have_text(["01", "02", "27", "28"])
        await expect(grid.get_by_role("button", name=re.compile("2026-03-01: missing"))).to_be_visible()
        await tab.looks_well("partitions-of-an-asset")
        await page.get_by_role("button", name="Choose missing and failed").click()
        await grid.get_by_role("button", name=re.compile("2026-03-02: made")).click()
        await page.get_by_role("button", name="Run 3 partitions …").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("2026-02-28, 2026-03-01, 2026-03-02")
        await dialog.get_by_role("button", name="Run").click()
        await expect(dialog.get_by_role("alert")).to_contain_text("has no partitions")

        await page.goto(tab.url + "/assets/regional")
        await expect(grid.get_by_role("button")).to_have_text(["2026-02-30", "us"])
    finally:
        await conn.execute("DELETE FROM asset_reference WHERE name = 'daily'")
        await conn.execute("DELETE FROM asset WHERE name IN ('daily', 'regional')")
        await conn.close()


async def test_what_checks_say_is_seen_on_the_page_and_in_the_list(service: Service, tab: Tab) -> None:
    conn = await asyncpg.connect(service.dsn)
    try:
        await conn.execute("INSERT INTO asset (name, uri) VALUES ('checked', 'x')")
        await conn.execute(
            "INSERT INTO asset_reference (dag_id, role, kind, name, task_id, uri, is_check)"
            " SELECT 'wide', role, 'asset', 'checked', task_id, 'x', role = 'inlet'"
            "   FROM (VALUES ('inlet', 'no_gaps'), ('outlet', 'no_gaps'), ('inlet', 'sizes'), ('inlet', 'new'))"
            "     AS n (role, task_id)"
        )
        await conn.execute(
            "INSERT INTO asset_check (asset_id, dag_id, task_id, run_id, map_index, try_number, status, message,"
            " metadata) SELECT a.id, 'wide', n.task_id, r.id, -1, n.try, n.status, n.message, n.metadata::json"
            "   FROM asset AS a, dag_run AS r, (VALUES"
            "     ('no_gaps', 1, 'fail', $2, $3), ('no_gaps', 2, 'warn', $2, $3), ('sizes', 1, 'pass', '', '{}')"
            "   ) AS n (task_id, try, status, message, metadata)"
            "  WHERE a.name = 'checked' AND r.dag_id = 'wide' AND r.run_id = $1",
            "day-001",
            "<img src=x onerror='window.ran=1'> " + "long" * 100,
            '{"gaps": 3, "<b>where</b>": {"country": ["nl", "' + "x" * 3_000 + '"]}}',
        )
        page = await tab.open("/assets/checked")
        table = page.get_by_role("table", name="Checks")
        rows = table.get_by_role("row")
        await expect(rows).to_have_count(1 + 3)
        (failed, new, passed) = (rows.filter(has_text=name) for name in ("no_gaps", "wide · new", "sizes"))
        await expect(failed).to_contain_text("blocking")
        await expect(failed).to_contain_text("<img src=x onerror='window.ran=1'>")
        await expect(failed).to_contain_text("<b>where</b>")
        await expect(failed.get_by_role("link")).to_have_text(["wide · no_gaps", "warn", "fail"])
        await expect(new).to_contain_text("not run")
        await expect(passed).not_to_contain_text("blocking")
        assert await page.evaluate("window.ran") is None
        await tab.looks_well("checks-of-an-asset")
        link = failed.get_by_role("link", name="wide · no_gaps")
        await expect(link).to_have_attribute("href", re.compile(r"/dags/wide/runs/day-001/tasks/no_gaps$"))

        await page.goto(tab.url + "/assets?q=checked")
        await expect(page.get_by_role("row").filter(has_text="checked")).to_contain_text("check: warn")
        await tab.looks_well("assets-with-a-check")
    finally:
        await conn.execute("DELETE FROM asset_reference WHERE name = 'checked'")
        await conn.execute("DELETE FROM asset WHERE name = 'checked'")
        await conn.close()
