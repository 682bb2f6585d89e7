"""The pages of operations in Chromium, on the real service: pools, backfills, assets, secrets, audit, files."""

from __future__ import annotations

import asyncio
import contextlib
import re
from datetime import UTC, datetime

import asyncpg
import pytest
from playwright.async_api import Browser, Error, Request, Route, expect

from aiosched.db.server.releases import EMBEDDED, what_is_missing
from aiosched.db.statements import ownership
from tests.browser.conftest import Service, Tab
from tests.patience import PATIENCE

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_runs_are_filtered_grouped_and_cleared_together(service: Service, tab: Tab) -> None:
    await service.run("troubled", "failed", "in-the-list")
    await service.run("making", "success", "in-the-list")
    page = await tab.open("/runs?search=in-the-list")
    await page.set_viewport_size({"width": 1440, "height": 900})

    await expect(page.get_by_role("row")).to_have_count(3)
    await expect(page.get_by_text("2 runs. Sorted by run after, newest first.")).to_be_visible()
    await tab.filter("State", "failed (1)")
    await expect(page).to_have_url(re.compile("state=failed"))
    await expect(page.get_by_role("row")).to_have_count(2)
    await page.get_by_role("button", name="Save view").click()
    await page.get_by_label("Name of the view").fill("failed ones")
    await page.keyboard.press("Enter")
    await tab.fits()

    await page.get_by_role("combobox", name="Group by").select_option("dag_id")
    await page.get_by_role("button", name="troubled").click()
    await expect(page).to_have_url(re.compile("dag_id=troubled"))
    await page.get_by_role("link", name="failed ones").click()
    await expect(page).not_to_have_url(re.compile("dag_id"))
    await page.get_by_role("button", name="Ended").click()
    await expect(page.get_by_text("Sorted by end, newest first")).to_be_visible()

    await page.get_by_label("Select all rows").check()
    await page.get_by_role("button", name="Note", exact=True).click()
    dialog = page.get_by_role("dialog", name="Note 1 run")
    await dialog.get_by_label("Note").fill("looked at")
    await dialog.get_by_role("button", name="Note 1 run").click()
    await expect(page.get_by_text("looked at")).to_be_visible()
    await page.get_by_label("Select troubled in-the-list").check()
    await page.get_by_role("button", name="Clear", exact=True).click()
    await expect(page.get_by_text(re.compile(r"Touches \d+ task instances? in 1 run of 1 DAG"))).to_be_visible()
    await page.get_by_role("button", name="Cancel", exact=True).last.click()
    await page.get_by_role("link", name="in-the-list").click()
    await expect(page.locator(".run-id", has_text="in-the-list")).to_be_visible()


async def test_a_range_of_days_has_both_of_them_in_the_time_zone_that_is_shown(
    service: Service, browser: Browser
) -> None:
    await service.execute("""
        INSERT INTO dag_run (dag_id, run_id, partition, version_id, run_type, triggered_by, state, run_after)
        SELECT dag_id, 'in-range-' || n, partition, version_id, 'manual', 'test', 'success', run_after
          FROM dag, unnest(ARRAY['2025-10-25 22:30Z', '2025-10-26 00:30Z', '2025-10-26 22:30Z', '2025-10-26 23:30Z']
                           ::timestamptz[]) WITH ORDINALITY AS t(run_after, n)
         WHERE dag_id = 'making'
    """)
    context = await browser.new_context(timezone_id="Europe/Berlin")  # this day has 25 hours there
    page = await context.new_page()
    for zone, runs in (("utc", [4, 3, 2]), ("local", [3, 2, 1])):
        await page.goto(f"{service.url}/settings")
        await page.evaluate("(zone) => localStorage.setItem('aiosched.zone', zone)", zone)
        for address in (
            "/runs?search=in-range&time=range&from=2025-10-26&to=2025-10-26",
            "/dags/making?tab=runs&search=in-range&from=2025-10-26&to=2025-10-26",
        ):
            await page.goto(f"{service.url}{address}")
            await expect(page.get_by_role("link", name="in-range")).to_have_text([f"in-range-{n}" for n in runs])
    await page.goto(f"{service.url}/runs?search=in-range&time=range&from=nonsense")
    await expect(page.get_by_role("link", name="in-range")).to_have_count(4)
    await service.execute("DELETE FROM dag_run WHERE run_id LIKE 'in-range-%'")
    await context.close()


async def test_task_instances_are_found_across_dags_also_on_a_phone(service: Service, tab: Tab) -> None:
    await service.run("troubled", "failed", "to-find")
    page = await tab.open("/task-instances?state=failed&dag_id=troubled&time=24h")
    await page.set_viewport_size({"width": 390, "height": 800})

    first = page.get_by_role("row").filter(has_text="to-find").first
    await expect(first).to_be_visible()
    cell = first.locator("td").nth(1)
    assert await cell.evaluate("(cell) => getComputedStyle(cell, '::before').content") == '"State"'
    await tab.fits()
    await page.get_by_role("button", name="Add a filter").click()
    await expect(page.get_by_role("searchbox", name="Filter or value …")).to_be_focused()
    box = await page.get_by_role("group", name="Add a filter").bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= await page.evaluate("document.documentElement.clientWidth")
    await page.keyboard.type("no such words")
    await page.get_by_role("button", name="Error is “no such words”").click()
    await expect(page.get_by_text("No task instances match these filters")).to_be_visible()
    await page.get_by_role("button", name="Clear filters").click()
    await expect(page).not_to_have_url(re.compile("state="))


async def test_a_pool_is_changed_in_place_after_a_look(service: Service, tab: Tab) -> None:
    await service.api("PUT", "pools/narrow", json={"slots": 2, "description": "a narrow bridge"})
    page = await tab.open("/pools?pool=narrow")
    card = page.get_by_role("region", name="Pool narrow")

    await expect(card.get_by_text("of 2 used, 2 open")).to_be_visible()
    await card.get_by_role("spinbutton", name="Slots").fill("5")
    await card.get_by_role("button", name="Set").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("2 slots become 5 slots")
    await expect(dialog.locator("code")).to_have_text("aiosched pools set narrow 5")
    await dialog.get_by_role("button", name="Set 5").click()

    await expect(card.get_by_text("of 5 used, 5 open")).to_be_visible()
    assert (await service.api("GET", "pools/narrow"))["slots"] == 5


# What is painted as text, with its width and that of its canvas, in CSS pixels.
_NOTE_TEXTS = """() => {
    window.painted = [];
    const paint = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
        const scale = this.getTransform().a;
        window.painted.push([text, this.measureText(text).width, this.canvas.width / scale]);
        return paint.call(this, text, ...place);
    };
}"""

_IS_PAINTED = """() => new Promise((done) => {
    const look = () => (window.painted.some(([text]) => text === "99+") ? done() : requestAnimationFrame(look));
    look();
})"""


async def test_a_long_queue_says_how_many_more_there_are_and_a_large_number_fits(service: Service, tab: Tab) -> None:
    await service.api("PUT", "pools/standstill", json={"slots": 0})
    await service.api("POST", "dags/throng/runs", json={"run_id": "many"})
    page = await tab.open("/pools?pool=standstill")
    card = page.get_by_role("region", name="Pool standstill")
    await expect(card.get_by_text("and 30 more")).to_be_visible()
    await card.get_by_role("button", name="Show more").click()
    await expect(card.locator(".queue li")).to_have_count(130)
    await expect(card.get_by_text("and 30 more")).not_to_be_visible()

    await page.add_init_script(f"({_NOTE_TEXTS})()")
    await page.goto(f"{tab.url}/dags/throng")
    await page.evaluate(_IS_PAINTED)
    ((width, room),) = {(width, room) for text, width, room in await page.evaluate("window.painted") if text == "99+"}
    assert width <= room
    await service.api("POST", "dags/throng/runs/many/cancel", json={})
    await service.execute("DELETE FROM dag_run WHERE dag_id = 'throng'")  # no page shall count it as a failure
    await service.api("DELETE", "pools/standstill")


async def test_a_pool_is_made_described_and_deleted(service: Service, tab: Tab) -> None:
    page = await tab.open("/pools")
    await page.get_by_role("button", name="New pool …").click()
    dialog = page.get_by_role("dialog", name="New pool")
    await dialog.get_by_label("Name").fill("made here")
    await dialog.get_by_role("spinbutton", name="Slots").fill("0")
    await expect(dialog.locator("code")).to_have_text("aiosched pools set 'made here' 0")
    await dialog.get_by_role("button", name="Save").click()
    card = page.get_by_role("region", name="Pool made here")
    await expect(card.get_by_text("closed")).to_be_visible()

    await card.get_by_role("button", name="Edit …").click()
    dialog = page.get_by_role("dialog", name="Pool made here")
    await dialog.get_by_label("Description").fill("for a while")
    await dialog.get_by_label("Deferred tasks keep their slots").check()
    await dialog.get_by_role("button", name="Save").click()
    await expect(card.get_by_text("for a while")).to_be_visible()
    await expect(card.get_by_text("deferred tasks keep their slots")).to_be_visible()

    await card.get_by_role("button", name="Delete …").click()
    dialog = page.get_by_role("dialog", name="Delete pool made here")
    await expect(dialog.locator("code")).to_have_text("aiosched pools delete 'made here' --yes")
    await dialog.get_by_role("button", name="Delete").click()
    await expect(card).to_have_count(0)


async def test_a_backfill_is_cancelled_and_a_paused_dag_says_that_it_holds_it(service: Service, tab: Tab) -> None:
    await service.api("PATCH", "dags/nightly", json={"is_paused": True})
    wish = {"dag_id": "nightly", "from_date": "2026-03-01T00:00:00Z", "to_date": "2026-03-02T00:00:00Z"}
    await service.api("POST", "backfills", json=wish)
    page = await tab.open("/backfills?dag_id=nightly")
    row = page.get_by_role("row").filter(has_text="nightly")

    await expect(row.get_by_role("link", name="the DAG is paused")).to_be_visible()
    await row.get_by_role("button", name="Cancel").click()
    dialog = page.get_by_role("dialog", name=re.compile("Cancel backfill .* of nightly"))
    await expect(dialog).to_contain_text("This cannot be undone.")
    await expect(dialog.locator("code")).to_have_text(re.compile(r"aiosched backfill cancel \d+"))
    await dialog.get_by_role("button", name="Cancel", exact=True).last.click()

    await expect(row).to_contain_text("cancelled")
    await expect(row.get_by_role("button", name="Cancel")).to_have_count(0)


async def test_a_dag_is_deleted_with_its_history(service: Service, tab: Tab) -> None:
    (service.dags / "short_lived.py").write_text(
        "from aiosched import DAG, EmptyOperator\n"
        "with DAG('short_lived', schedule=None):\n    EmptyOperator(task_id='x')\n"
    )
    page = await tab.open("/dags?q=short_lived")
    await expect(page.get_by_role("link", name="short_lived")).to_be_visible()
    await service.run("short_lived", "success", "to-lose")
    await page.goto(service.url + "/dags/short_lived?tab=details")

    await page.get_by_role("button", name="Delete …").click()
    dialog = page.get_by_role("dialog", name="Delete short_lived")
    await expect(dialog).to_contain_text("All its runs, task instances, versions and values are deleted")
    await expect(dialog.locator("code")).to_have_text("aiosched dags delete short_lived --yes")
    await tab.check_access()
    await dialog.get_by_role("button", name="Delete").click()

    await expect(page).to_have_url(re.compile("/dags$"))
    assert (await service.api("GET", "runs", params={"dag_id": "short_lived"}))["items"] == []


async def test_the_requests_tell_who_asked_for_what_and_are_filtered(service: Service, tab: Tab) -> None:
    await service.run("making", "success", "to-audit")
    page = await tab.open("/requests?dag_id=making&verb=trigger")

    row = page.get_by_role("row").filter(has_text="making").first
    await expect(row).to_contain_text("applied")
    await row.get_by_text("Details", exact=True).click()
    await expect(row).to_contain_text('"run_id": "')
    applied = page.get_by_role("row").filter(has_text="applied")
    await tab.filter("Outcome", "refused")
    await expect(applied).to_have_count(0)


async def test_the_audit_log_tells_who_did_what_and_is_filtered(service: Service, tab: Tab) -> None:
    await service.run("making", "success", "audited")
    page = await tab.open("/audit?kind=request.trigger&dag_id=making")

    row = page.get_by_role("row").filter(has_text="audited").first
    await expect(row).to_contain_text("done")
    await row.get_by_text("Details", exact=True).click()
    await expect(row).to_contain_text('"run_id": "audited"')
    await tab.filter("Result", "refused")
    await expect(row).to_have_count(0)


async def test_a_request_that_waits_is_withdrawn(service: Service, tab: Tab) -> None:
    await service.execute(  # of no partition, so no scheduler applies it
        "INSERT INTO request (dag_id, verb, args, requested_by) VALUES ('making', 'clear', '{}', 'cli:ann')"
    )
    page = await tab.open("/requests?dag_id=making&state=waiting")

    row = page.get_by_role("row").filter(has_text="cli:ann")
    await row.get_by_role("button", name="Withdraw").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("No scheduler has applied clear to making yet.")
    await expect(dialog.locator("code").last).to_have_text(re.compile(r"aiosched requests withdraw \d+"))
    await tab.check_access()
    await dialog.get_by_role("button", name="Withdraw").click()

    await expect(row).to_have_count(0)
    page = await tab.open("/requests?dag_id=making&state=refused")
    await page.get_by_role("row").filter(has_text="cli:ann").get_by_text("Details", exact=True).click()
    await expect(page.get_by_text("withdrawn by api:")).to_be_visible()


async def test_every_file_tells_how_its_parsing_went(service: Service, tab: Tab) -> None:
    page = await tab.open("/import-errors")
    await page.get_by_role("link", name="Files").click()

    row = page.get_by_role("row").filter(has_text="stages.py")
    await expect(row).to_contain_text("parsed")
    await expect(row).to_contain_text(re.compile(r"\d\sm?s"))
    await tab.check_access()
    await tab.picture("files")
    await page.get_by_role("button", name="with errors").click()
    await expect(page.get_by_text("No matching files")).to_be_visible()
    await page.get_by_role("button", name="with errors").click()
    await row.get_by_role("link", name="yearly").click()
    await expect(page).to_have_url(re.compile("/dags/yearly$"))


async def test_a_backfill_is_looked_at_made_paused_and_ends(service: Service, tab: Tab) -> None:
    await service.api("PUT", "pools/days", json={"slots": 0})
    page = await tab.open("/backfills?dag_id=daily&make=1")
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("From", exact=True).fill("2026-02-01")
    await dialog.get_by_label("To, inclusive").fill("2026-02-03")

    await expect(dialog.get_by_text("a run will be created")).to_have_count(3)
    await tab.check_access()
    await tab.picture("backfill-dialog")
    await dialog.get_by_role("button", name="Run 3 dates").click()

    row = page.get_by_role("row").filter(has_text="2026-02-01")
    await expect(row).to_contain_text("0 of 3")
    await row.get_by_role("button", name="Pause").click()
    await expect(page.get_by_role("dialog")).to_contain_text("3 of 3 runs unfinished")
    await page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    await expect(row).to_contain_text("paused")
    await row.get_by_role("button", name="Resume").click()
    await page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    await service.api("PUT", "pools/days", json={"slots": 4})
    await expect(row).to_contain_text("3 of 3")
    await expect(row).to_contain_text("completed")


async def test_the_preview_of_a_backfill_is_never_that_of_other_dates(tab: Tab) -> None:
    held: list[Route] = []
    first = asyncio.Event()

    async def hold(route: Route) -> None:
        if "2026-03-03" in (route.request.post_data or ""):
            held.append(route)
            first.set()
        else:
            await route.continue_()

    await tab.page.route("**/api/v1/backfills", hold)
    page = await tab.open("/backfills?dag_id=daily&make=1")
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("From", exact=True).fill("2026-03-01")
    await dialog.get_by_label("To, inclusive").fill("2026-03-03")
    await first.wait()
    await dialog.get_by_label("To, inclusive").fill("2026-03-05")
    await expect(dialog.get_by_role("button", name="Run 5 dates")).to_be_enabled()

    with contextlib.suppress(Error):  # the page need not wait for it any longer
        await held[0].continue_()
    await page.wait_for_load_state("networkidle")
    await expect(dialog.get_by_role("button", name="Run 5 dates")).to_be_enabled()
    await expect(dialog.get_by_text("a run will be created")).to_have_count(5)
    await dialog.get_by_label("To, inclusive").fill("never")
    await expect(dialog.get_by_role("button", name="Run", exact=True)).to_be_disabled()
    await expect(dialog.get_by_text("a run will be created")).to_have_count(0)
    tab.expected.append("422")
    await expect(dialog.get_by_role("alert")).to_contain_text("to_date")


async def test_what_is_in_a_variable_or_a_connection_is_never_shown(service: Service, tab: Tab) -> None:
    heard: list[str] = []
    reading: list[asyncio.Future[str]] = []
    page = await tab.open("/secrets")

    page.on("request", lambda request: heard.append(request.url))
    page.on("requestfinished", lambda request: reading.append(asyncio.ensure_future(_body(request))))
    await page.get_by_role("button", name="New variable …").click()
    await page.get_by_label("Key", exact=True).fill("token")
    await page.get_by_label("Value").fill("open-sesame")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("row").filter(has_text="token")).to_contain_text("••••••")

    await page.get_by_role("link", name="Connections").click()
    await page.get_by_role("button", name="New connection …").click()
    await page.get_by_label("Id").fill("warehouse")
    await page.get_by_label("Type").fill("postgres")
    await page.get_by_label("Password").fill("open-sesame")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("row").filter(has_text="warehouse")).to_contain_text("postgres")
    await page.get_by_role("button", name="Replace warehouse").click()
    await expect(page.get_by_label("Password")).to_have_value("")
    await page.keyboard.press("Escape")
    await page.get_by_role("link", name="Sources").click()
    await expect(page.get_by_role("row").filter(has_text="warehouse")).to_contain_text("database")

    assert "open-sesame" not in await page.content()
    heard += await asyncio.gather(*reading)
    assert '"warehouse"' in "".join(heard)
    assert "open-sesame" not in "".join(heard)


async def _body(request: Request) -> str:
    response = await request.response()
    return "" if response is None or response.status == 204 else await response.text()


async def test_a_scheduler_that_drains_and_one_that_goes_are_told(service: Service, tab: Tab) -> None:
    page = await tab.open("/schedulers")
    await expect(page.get_by_text("64 of 64 owned")).to_be_visible()
    await expect(page.get_by_text(f"The database is PostgreSQL {EMBEDDED}.")).to_be_visible()
    if what_is_missing(EMBEDDED, datetime.now(UTC).date()) is not None:
        await expect(page.get_by_text(f"PostgreSQL {EMBEDDED} lacks fixes")).to_be_visible()
    card = page.locator("section").filter(has_text="elsewhere, process 7")
    conn = await asyncpg.connect(service.dsn)  # its session is what a living scheduler is known by
    try:
        async with conn.transaction():
            facts = {"hostname": "elsewhere", "pid": 7, "version": "0", "executor": "inline", "slots": 1}
            other = await ownership.register(conn, name="other", lease=PATIENCE, **facts)
            await conn.execute("UPDATE scheduler SET draining = true WHERE incarnation = $1", other)

        await expect(card).to_contain_text("draining")
        await expect(page.get_by_text("ended/s").first).to_be_visible()  # the charts have begun
        await tab.check_access()
        await tab.picture("schedulers")
    finally:
        await conn.close()
    await expect(card).to_have_count(0)


async def test_import_errors_point_at_the_line(service: Service, tab: Tab) -> None:
    frame = "broken.py:2:1\n  1 | import this\n> 2 | import that\n    | ^^^^^^^^^^^\n  3 |"
    conn = await asyncpg.connect(service.dsn)
    try:
        await conn.execute(
            "INSERT INTO dag_file (file, partition, parsed_at, error, error_line, code_frame, traceback)"
            " VALUES ('broken.py', 0, now(), 'ModuleNotFoundError: No module named ''that''', 2, $1, 'Traceback …')",
            frame,
        )
        for theme in ("light", "dark"):
            page = await tab.open("/import-errors", theme)
            await expect(page.locator(".frame .at")).to_have_text(re.compile("> 2 | import that"))
            await expect(page.get_by_text("Traceback …")).to_be_hidden()
            await tab.check_access()
            await tab.picture(f"import-errors-{theme}")
        await page.get_by_text("Traceback", exact=True).click()
        await expect(page.get_by_text("Traceback …")).to_be_visible()
    finally:
        await conn.execute("DELETE FROM dag_file WHERE file = 'broken.py'")
        await conn.close()


async def test_every_page_shows_what_it_is_about(service: Service, tab: Tab) -> None:
    await service.run("making", "success", "to-check")
    for address, shown in (
        ("/runs", "to-check"),
        ("/task-instances", "to-check"),
        ("/pools?pool=default_pool", "No task is waiting."),
        ("/schedulers", "64 of 64 owned"),
        ("/backfills", "Backfills"),
        ("/assets?tab=lineage", "an asset"),
        ("/assets/report", "Events"),
        ("/requests", "trigger"),
        ("/audit", "request.trigger"),
        ("/secrets", "never shown"),
        ("/settings?search=parallelism", "core.parallelism"),
        ("/users", "requires no login"),
        ("/import-errors?tab=files", "stages.py"),
    ):
        page = await tab.open(address)
        await expect(page.get_by_text(shown).first).to_be_visible()
