"""The pages of a run and of a task instance in Chromium, on the real service: logs, why, clearing, notes."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from playwright.async_api import Page, Response, Route, expect

from aiosched.remote.log_files import log_folder
from tests.browser.conftest import Service, Tab

pytestmark = pytest.mark.asyncio(loop_scope="session")

RUN = "/dags/troubled/runs/"


async def pool(service: Service, name: str, slots: int) -> None:
    await service.api("PUT", f"pools/{name}", json={"slots": slots})


async def test_from_a_failed_run_to_the_error_in_the_log(service: Service, tab: Tab) -> None:
    await service.run("troubled", "failed", "to-read")

    page = await tab.open(RUN + "to-read")

    await expect(page.get_by_text("A task failed, so the run failed.")).to_be_visible()
    await expect(page.get_by_role("row").filter(has_text="divide")).to_contain_text("ZeroDivisionError")
    await page.get_by_role("button", name="1 failed").click()
    await expect(page).to_have_url(re.compile("state=failed"))
    await expect(page.get_by_role("row")).to_have_count(2)
    await page.get_by_role("link", name="divide", exact=True).click()
    log = page.get_by_role("region", name="Log")
    await expect(log.locator(".line.bad").first).to_contain_text("division by zero")
    await expect(page.get_by_role("button", name="1 error")).to_be_visible()
    await expect(page).to_have_url(re.compile(r"line=\d"))
    await page.get_by_text("Traceback", exact=True).click()
    await expect(page.get_by_text("return 1 / 0").first).to_be_visible()


async def test_colours_in_the_log_and_what_a_task_pushed(service: Service, tab: Tab) -> None:
    await service.run("troubled", "failed", "to-look-at")

    page = await tab.open(RUN + "to-look-at/tasks/talk")

    await expect(page.locator(".fore-2")).to_have_text("green")
    await expect(page.locator(".bold.fore-1")).to_have_text("bold red")
    await page.get_by_role("link", name="XCom").click()
    await expect(page.locator(".json dt", has_text="rows")).to_be_visible()
    await tab.looks_well("xcom-tree")
    await page.get_by_role("link", name="Details").click()
    await expect(page.get_by_text("all_success")).to_be_visible()


async def test_a_value_in_remote_storage_is_shown_by_its_address_and_its_beginning(service: Service, tab: Tab) -> None:
    await service.run("troubled", "failed", "stored-elsewhere")
    await service.execute(
        """UPDATE xcom SET stored = '{"path": "a/one.json", "size": 5000000, "length": 9}', value = '"[1, 2, 3"'
            WHERE run_id = (SELECT id FROM dag_run WHERE run_id = 'stored-elsewhere') AND key = 'return_value'"""
    )

    page = await tab.open(RUN + "stored-elsewhere/tasks/talk?tab=xcom")

    await expect(page.get_by_text("a/one.json")).to_be_visible()
    await expect(page.get_by_text("[1, 2, 3")).to_be_visible()
    link = page.get_by_role("link", name="Download")
    await expect(link).to_have_attribute("href", re.compile(r"/tasks/talk/xcom/return_value/content"))
    await expect(link).to_have_attribute("download", "return_value.json")
    await expect(page.get_by_role("button", name="Show all")).to_have_count(0)


LINES, LINE = 2_000_000, 100  # 200 MB
BURNING, NEEDLE = 1_600_000, 1_234_567  # lines that are not like the others


def write_long_log(path: Path) -> None:
    """A log of 200 MB in large pieces: every line has its number, one an error, one words to search for."""
    special = {BURNING: "ERROR it is on fire", NEEDLE: "a Needle in it"}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for first in range(1, LINES, 20_000):
            lines = (f"line {n:07d} {special.get(n, 'x'):x<{LINE - 14}}\n" for n in range(first, first + 20_000))
            file.write("".join(lines).encode())
    assert path.stat().st_size == LINES * LINE


class Traffic:
    """How many bytes of answers a page got."""

    def __init__(self, page: Page) -> None:
        self.page, self.answers = page, list[Response]()
        page.on("response", lambda answer: self.answers.append(answer))

    async def bytes(self) -> int:
        sizes = [await answer.request.sizes() for answer in self.answers if "/logs/" in answer.url]
        return sum(size["responseBodySize"] for size in sizes)


async def test_a_log_of_200_mb_is_scrolled_searched_and_its_error_found_by_its_parts(
    service: Service, tab: Tab
) -> None:
    await service.run("troubled", "failed", "to-scroll")
    folder = log_folder(service.dags.parent / "logs", dag_id="troubled", run_id="to-scroll", task_id="talk")
    write_long_log(folder / "attempt=1.log")
    traffic = Traffic(tab.page)
    page = await tab.open(RUN + "to-scroll/tasks/talk")
    log = page.get_by_role("region", name="Log")
    await expect(page.get_by_text("2,000,000 lines · 200.0 MB")).to_be_visible()

    await page.get_by_role("button", name="1 error").click()
    await expect(log.get_by_text("it is on fire")).to_be_visible()
    await expect(page).to_have_url(re.compile(f"line={BURNING}"))

    await log.focus()
    await page.keyboard.press("End")
    await expect(log.locator(f"[data-line='{LINES}']")).to_contain_text("line 2000000")
    await page.keyboard.press("Home")
    await expect(log.locator("[data-line='1']")).to_contain_text("line 0000001")
    await log.evaluate("box => { box.scrollTop = (box.scrollHeight - box.clientHeight) / 2 }")
    await expect(log.get_by_text(re.compile(r"^line 10000\d\d")).first).to_be_visible()
    await expect(log.locator(".line")).to_have_count(await log.evaluate("box => Math.ceil(box.clientHeight / 18) + 2"))

    await page.get_by_role("searchbox", name="Search the log").fill("needle IN it")
    await page.keyboard.press("Enter")
    await expect(log.locator("mark")).to_have_text("Needle in it")
    await expect(page).to_have_url(re.compile(f"line={NEEDLE}"))
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("from the top")).to_be_visible()
    await tab.picture("log-200-mb")
    await page.reload()
    await expect(log.locator(".chosen")).to_contain_text(f"line {NEEDLE}")

    assert await traffic.bytes() < 3_000_000  # the index twice, and a few blocks of 128 kB
    (folder / "attempt=1.log").unlink()


async def test_a_log_is_followed_while_its_task_runs(service: Service, tab: Tab, tmp_path: Path) -> None:
    until = tmp_path / "until"
    await service.run("held", "running", "to-follow", {"until": str(until)})
    log = log_folder(service.dags.parent / "logs", dag_id="held", run_id="to-follow", task_id="hold") / "attempt=1.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("".join(f"line {number}\n" for number in range(1, 201)))
    page = await tab.open("/dags/held/runs/to-follow/tasks/hold")
    pane = page.get_by_role("region", name="Log")
    await expect(pane.get_by_text("line 200", exact=True)).to_be_in_viewport()

    with log.open("a") as file:
        file.write("<b>one more</b>\n" * 50)
    await expect(pane.locator("[data-line='250']")).to_contain_text("<b>one more</b>")

    await pane.focus()
    await page.keyboard.press("Home")
    await expect(page.get_by_role("button", name="Follow", exact=True)).to_be_visible()
    with log.open("a") as file:
        file.write("ERROR it breaks\n")
    await expect(page.get_by_text("251 lines")).to_be_visible()
    await expect(pane.get_by_text("line 1", exact=True)).to_be_in_viewport()
    until.touch()
    await expect(page.locator("header .state")).to_contain_text("success")
    await expect(page.get_by_role("button", name="1 error")).to_be_visible()
    await expect(page.get_by_role("button", name="Follow")).to_have_count(0)


async def test_a_log_that_could_not_be_read_for_a_while_keeps_its_lines_and_is_followed_again(
    service: Service, tab: Tab, tmp_path: Path
) -> None:
    until = tmp_path / "until"
    await service.run("held", "running", "to-lose", {"until": str(until)})
    log = log_folder(service.dags.parent / "logs", dag_id="held", run_id="to-lose", task_id="hold") / "attempt=1.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("line 1\n")
    page = await tab.open("/dags/held/runs/to-lose/tasks/hold")
    pane = page.get_by_role("region", name="Log")
    await expect(pane.get_by_text("line 1", exact=True)).to_be_visible()
    tab.expected.append("503")
    index, text = re.compile(r"/logs/1/blocks\?"), re.compile(r"/logs/1\?")
    asked = 0

    async def refuse(route: Route) -> None:
        nonlocal asked
        asked += 1
        await route.fulfill(status=503, json={"code": "database", "detail": "no database"})

    await page.route(index, refuse)
    with log.open("a") as file:
        file.write("line 2\n")
    while asked < 3:
        await page.wait_for_timeout(50)
    await expect(pane.get_by_text("line 1", exact=True)).to_be_visible()
    await page.unroute(index)

    await expect(pane.get_by_text("line 2", exact=True)).to_be_visible()
    await page.route(text, refuse)
    with log.open("a") as file:
        file.write("line 3\n")
    while asked < 4:
        await page.wait_for_timeout(50)
    await page.unroute(text)
    await expect(pane.get_by_text("line 3", exact=True)).to_be_visible()
    until.touch()


async def test_why_a_task_waits_and_how_it_goes_on_when_the_pool_opens(service: Service, tab: Tab) -> None:
    await pool(service, "bridge", 0)
    await service.run("crowded", "running", "to-wait")
    page = await tab.open("/dags/crowded/runs/to-wait/tasks/cross?map_index=2")

    why = page.locator(".why")
    await expect(why.locator(".gates .wait, .gates .never")).to_contain_text("bridge")
    await expect(why.locator(".cli code").first).to_contain_text("aiosched pools set bridge")
    await tab.check_access()
    await tab.picture("why")

    await pool(service, "bridge", 3)
    await expect(page.locator("header .state")).to_contain_text("success")
    await expect(why).to_have_count(0)


async def test_what_why_did_not_look_at_is_told_below_the_gates(service: Service, tab: Tab) -> None:
    await pool(service, "bridge", 0)
    await service.run("crowded", "running", "to-leave-out")

    address = "dags/crowded/runs/to-leave-out/tasks/cross"
    notes = ["more than 2,000 task instances wait for slots: <b>its rank</b> is not known"]
    answer = await service.api("GET", f"{address}/why", params={"map_index": 2}) | {"notes": notes}
    await tab.page.route("**/api/v1/**/why*", lambda route: route.fulfill(json=answer))
    page = await tab.open(f"/{address}?map_index=2")

    told = page.locator(".why .gates + .notes").get_by_role("listitem")
    await expect(told).to_have_text(notes)
    await tab.check_access()
    await tab.picture("why-notes")


async def test_mapped_instances_are_one_row_until_it_is_opened(service: Service, tab: Tab) -> None:
    await pool(service, "bridge", 3)
    await service.run("crowded", "success", "to-open")
    page = await tab.open("/dags/crowded/runs/to-open")

    await expect(page.get_by_role("row")).to_have_count(2)
    await page.get_by_role("button", name="cross").click()
    await expect(page.get_by_role("row")).to_have_count(7)
    await page.goto(service.url + "/dags/crowded/runs/to-open/tasks/cross")
    await page.get_by_role("link", name="cross[3]").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("cross[3]")


async def test_clearing_shows_what_it_touches_before(service: Service, tab: Tab) -> None:
    await service.run("troubled", "failed", "to-clear")
    page = await tab.open(RUN + "to-clear/tasks/divide")

    await page.get_by_role("button", name="Clear …").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_text("1 instance in 1 run will run again")).to_be_visible()
    await expect(dialog.locator("code").filter(has_text="aiosched tasks clear troubled --run to-clear")).to_be_visible()
    await dialog.get_by_label("Include downstream").check()
    await expect(dialog.get_by_text("2 instances in 1 run will run again")).to_be_visible()
    await dialog.get_by_label("Refuse if tasks are running").check()
    await expect(dialog.locator("code").first).to_contain_text("--downstream --prevent-running")
    await dialog.get_by_label("Include downstream").uncheck()
    await dialog.get_by_role("button", name="Clear 1").click()

    await expect(page.get_by_role("link", name="Try 2")).to_be_visible()
    await expect(page.locator("header .state")).to_contain_text("failed")


async def test_cancelling_a_run_says_what_becomes_of_its_tasks(service: Service, tab: Tab) -> None:
    await pool(service, "bridge", 0)
    await service.run("crowded", "running", "to-cancel")
    page = await tab.open("/dags/crowded/runs/to-cancel")

    await page.get_by_role("button", name="Cancel …").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_role("listitem")).to_contain_text(["does not start"])
    await expect(dialog.locator("code")).to_have_text("aiosched runs cancel crowded to-cancel")
    await dialog.get_by_role("button", name="Cancel the run").click()

    await expect(page.locator("header .state").first).to_contain_text("failed")
    await expect(page.get_by_role("button", name="Cancel …")).to_have_count(0)


async def test_marking_says_what_it_does_before(service: Service, tab: Tab) -> None:
    await service.run("troubled", "failed", "to-mark")
    page = await tab.open(RUN + "to-mark/tasks/divide")

    await page.get_by_role("button", name="Mark …").click()
    dialog = page.get_by_role("dialog", name="Mark divide")
    await expect(dialog).to_contain_text("Downstream instances that failed because of it run again.")
    await expect(dialog.locator("code").last).to_have_text("aiosched tasks mark troubled to-mark divide success")
    await expect(dialog.get_by_role("status")).to_contain_text("1 instance in 1 run will be marked success")
    await tab.check_access()
    await tab.picture("mark")
    await dialog.get_by_role("button", name="Mark success").click()
    await expect(page.locator("header .state")).to_contain_text("success")

    await page.goto(service.url + RUN + "to-mark")
    await expect(page.locator("header .state").first).to_contain_text("success")  # what was behind it has run
    await page.get_by_role("button", name="Mark …").click()
    dialog = page.get_by_role("dialog", name="Mark the run")
    await dialog.get_by_label("State").select_option(label="failed")
    await expect(dialog.locator("code").last).to_have_text("aiosched runs mark troubled to-mark failed")
    await dialog.get_by_role("button", name="Mark failed").click()
    await expect(page.locator("header .state").first).to_contain_text("failed")


async def test_a_mark_that_reaches_further_shows_how_far_before(service: Service, tab: Tab) -> None:
    for day in ("01", "02"):
        await service.run("troubled", "failed", f"to-reach-{day}", date=f"2026-02-{day}T00:00:00Z")
    page = await tab.open(RUN + "to-reach-02/tasks/divide")

    await page.get_by_role("button", name="Mark …").click()
    dialog = page.get_by_role("dialog", name="Mark divide")
    preview = dialog.get_by_role("status")
    await dialog.get_by_label("State").select_option(label="skipped")
    await expect(preview).to_contain_text("1 instance in 1 run will be marked skipped")
    await dialog.get_by_label("Include downstream").check()
    await expect(preview).to_contain_text("2 instances in 1 run will be marked skipped")
    await dialog.get_by_label("Include earlier runs").check()
    await expect(preview).to_contain_text("4 instances in 2 runs will be marked skipped")
    await expect(preview.get_by_role("row").filter(has_text="behind")).to_have_count(2)
    line = "aiosched tasks mark troubled to-reach-02 divide skipped --downstream --past"
    await expect(dialog.locator("code").last).to_have_text(line)
    await tab.check_access()
    await tab.picture("mark-further")
    await dialog.get_by_role("button", name="Mark skipped").click()

    await expect(page.locator("header .state")).to_contain_text("skipped")
    await page.goto(service.url + RUN + "to-reach-01/tasks/behind")
    await expect(page.locator("header .state")).to_contain_text("skipped")


async def test_a_mark_that_is_refused_says_so_before(service: Service, tab: Tab) -> None:
    tab.expected.append("409")  # the browser logs every such answer
    await service.run("troubled", "failed", "to-refuse")
    page = await tab.open(RUN + "to-refuse/tasks/divide")

    await page.get_by_role("button", name="Mark …").click()
    dialog = page.get_by_role("dialog", name="Mark divide")
    await dialog.get_by_label("Include later runs").check()

    await expect(dialog.get_by_role("alert")).to_contain_text("has no logical date")
    await expect(dialog.get_by_role("button", name="Mark success")).to_be_disabled()


async def test_what_a_run_did_is_told_as_events_and_the_log_can_be_had(service: Service, tab: Tab) -> None:
    await service.run("troubled", "failed", "to-tell")
    page = await tab.open(RUN + "to-tell/tasks/divide?tab=events")
    await expect(page.get_by_role("row").filter(has_text="failed")).not_to_have_count(0)

    await page.get_by_role("link", name="Log", exact=True).click()
    async with page.expect_download() as waiting:
        await page.get_by_role("link", name="Download").click()
    download = await waiting.value

    assert download.suggested_filename == "divide.try-1.log"
    kept = await download.path()
    assert "ZeroDivisionError" in await asyncio.to_thread(kept.read_text)


async def test_the_run_in_time_tells_when_a_try_was_deferred(service: Service, tab: Tab, tmp_path: Path) -> None:
    until = tmp_path / "arrived"
    await service.run("deferring", "running", "to-defer", {"until": str(until)})
    page = await tab.open("/dags/deferring/runs/to-defer?tab=time")
    chart = page.get_by_role("listbox", name="Gantt chart of the run")
    await expect(page.locator("header .parts")).to_have_attribute("aria-label", "1 deferred")
    await chart.focus()
    await page.keyboard.press("ArrowDown")
    await expect(page.get_by_label("Selected")).to_contain_text(re.compile("try 1: deferred.*, deferred "))
    await tab.picture("run-deferred")
    until.touch()
    await expect(page.locator("header .state").first).to_contain_text("success")
    await expect(page.get_by_label("Selected")).to_contain_text(re.compile("try 1: success.*, deferred .*, ran "))


async def test_the_run_in_time_is_walked_by_keys_and_leads_to_its_tasks(service: Service, tab: Tab) -> None:
    await service.run("troubled", "failed", "to-time")
    page = await tab.open(RUN + "to-time?tab=time")
    chart = page.get_by_role("listbox", name="Gantt chart of the run")

    await chart.focus()
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowDown")
    await expect(page.get_by_label("Selected")).to_contain_text("try 1: failed")
    await page.keyboard.press("Enter")

    await expect(page).to_have_url(re.compile("/to-time/tasks/divide$"))


async def test_a_note_is_written_and_shown(service: Service, tab: Tab) -> None:
    await service.run("troubled", "failed", "to-note")
    page = await tab.open(RUN + "to-note")

    await page.get_by_role("button", name="Add note").click()
    await page.get_by_label("What others should know").fill("<b>the disk</b> was full")
    await page.get_by_role("button", name="Save").click()

    await expect(page.locator(".note")).to_have_text("<b>the disk</b> was full")


async def test_each_tab_is_at_its_address(service: Service, tab: Tab) -> None:
    await service.run("troubled", "failed", "to-check")
    for address, shown in (
        ("", "A task failed"),
        ("?tab=time", "Timeline"),
        ("/tasks/divide", "division by zero"),
        ("/tasks/divide?tab=events", "failed"),
        ("/tasks/talk?tab=rendered", "rendered"),
    ):
        page = await tab.open(f"{RUN}to-check{address}")
        await expect(page.get_by_text(shown).first).to_be_visible()


async def test_an_address_of_nothing_says_so(tab: Tab) -> None:
    page = await tab.open(RUN + "never-was")

    await expect(page.get_by_role("alert")).to_contain_text("has no run")
    tab.wrong.clear()  # the browser tells of the 404 in its console


async def test_large_whole_numbers_are_shown_as_they_are_and_never_sent_rounded(service: Service, tab: Tab) -> None:
    await service.run("making", "success", "large-number", {"order_id": 1234567890123456789})
    page = await tab.open("/dags/making/runs/large-number?tab=details")
    await expect(page.locator(".json")).to_contain_text("1234567890123456789")

    page = await tab.open("/dags/making")
    await page.get_by_role("button", name="Trigger …").click()
    form = page.get_by_role("dialog", name="Trigger making")
    await form.get_by_text("Conf", exact=True).click()
    await form.get_by_label("Configuration (conf) as a JSON object").fill('{"order_id": 1234567890123456789}')
    await expect(form.get_by_text("A number is too large for the browser: use the command line")).to_be_visible()
    await expect(form.get_by_role("button", name="Trigger", exact=True)).to_be_disabled()


_MANY_INSTANCES = """
    WITH run AS (
        INSERT INTO dag_run (dag_id, run_id, partition, version_id, run_type, triggered_by, state, run_after,
                             start_date, end_date)
        SELECT dag_id, 'very-many', partition, version_id, 'manual', 'test', 'success', now(), now(), now()
          FROM dag WHERE dag_id = 'fanned'
        RETURNING id)
    INSERT INTO task_instance (run_id, task_index, map_index, state, try_number)
    SELECT id, 0, n, CASE WHEN n < 450 THEN 'success' ELSE 'failed' END, 1 FROM run, generate_series(0, 451) AS n
"""


async def test_a_folded_task_counts_all_of_its_instances_and_not_only_those_that_are_loaded(
    service: Service, tab: Tab
) -> None:
    await service.execute(_MANY_INSTANCES)

    page = await tab.open("/dags/fanned/runs/very-many")

    row = page.get_by_role("table", name="Task instances").get_by_role("row").nth(1)
    await expect(row).to_contain_text("[452]")
    await expect(row).to_contain_text("450")
    await expect(page.get_by_role("button", name="Show more")).to_be_visible()
    await page.goto(page.url + "?state=failed")
    await expect(page.get_by_role("row").filter(has_text="failed")).to_have_count(2)
