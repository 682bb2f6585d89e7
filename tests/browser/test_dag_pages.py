"""Home, the list of DAGs and the views of a DAG in Chromium, on the real service."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Route, expect

from tests.browser.conftest import Service, Tab

pytestmark = pytest.mark.asyncio(loop_scope="session")

LARGE_FIRST_PAINT = 3_000  # ms of the processor, with the start of the page; usually less than 1,000
LARGE_STEP = 100  # ms of the processor; usually less than 30

# How long the page needs from a key or a move to the frame that shows it: the median, in ms.
STEPS = 15
STEP = """async ([selector, kind, steps]) => {
    const target = document.querySelector(selector), box = target.getBoundingClientRect(), times = [];
    for (let i = 0; i < steps; i++) {
        const start = performance.now();
        const key = {key: i % 2 ? "ArrowLeft" : "ArrowUp", bubbles: true};
        const wheel = {deltaY: i % 2 ? 40 : -40, clientX: box.x + 300, clientY: box.y + 200, cancelable: true};
        target.dispatchEvent(kind === "key" ? new KeyboardEvent("keydown", key) : new WheelEvent("wheel", wheel));
        await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
        times.push(performance.now() - start);
    }
    return times.sort((a, b) => a - b)[steps >> 1];
}"""


async def test_home_shows_health_figures_what_needs_attention_and_the_timeline(service: Service, tab: Tab) -> None:
    await service.run("stages", "failed", "for-home")
    page = await tab.open("/")
    for part in ("Database", "Schedulers", "Executors", "Parser"):
        await expect(page.get_by_label("Health").get_by_text(part, exact=False).first).to_be_visible()
    await expect(page.get_by_label("Now").get_by_text(re.compile("^runs? failed$"))).to_be_visible()
    await expect(page).to_have_title(re.compile("^PROD · Home · aiosched$"))
    await expect(page.get_by_label("Main").get_by_text("PROD", exact=True)).to_be_visible()
    failure = page.locator(".attention").get_by_role("listitem").filter(has_text="stages")
    await expect(failure.get_by_role("link").first).to_be_visible()
    for words in ("tasks? running", "tasks? queued", "scheduled or deferred", "(DAG is|DAGs are) late"):
        await expect(page.get_by_label("Now").get_by_text(re.compile(f"^{words}$"))).to_be_visible()
    await expect(page.locator(".timeline .run").first).to_be_visible()
    await expect(page.get_by_role("img", name=re.compile(r"\d failed")).last).to_be_visible()
    await expect(page.get_by_role("region", name="Failures by error").get_by_role("listitem")).not_to_have_count(0)
    upcoming = page.locator(".timeline .coming").first
    await expect(upcoming).to_have_attribute("title", re.compile("hourly: scheduled for"))
    await failure.get_by_role("link", name="View run").click()
    await expect(page).to_have_url(re.compile(r"/dags/stages/runs/for-home$"))


async def test_home_counts_one_of_each_in_the_singular(tab: Tab) -> None:
    async def one_of_each(route: Route) -> None:
        response = await route.fetch()
        home = await response.json()
        home["counts"] |= {"running": 1, "queued": 1, "failed_runs_24h": 1, "late_dags": 1}
        await route.fulfill(response=response, json=home)

    page = await tab.open("/dags")
    await page.route("**/api/v1/summary*", one_of_each)
    await page.goto(page.url.removesuffix("dags"))

    for words in ("task running", "task queued", "run failed", "DAG is late"):
        await expect(page.get_by_label("Now").get_by_text(words, exact=True)).to_be_visible()


BROKEN = "cannot be parsed: this DAG is not scheduled until it can"
REMOVED = "No DAG file has this DAG any more"


@pytest.mark.parametrize(("is_broken", "told", "untold"), [(True, BROKEN, REMOVED), (False, REMOVED, BROKEN)])
async def test_a_dag_whose_file_is_broken_or_gone_has_one_banner_and_no_next_run(
    tab: Tab, is_broken: bool, told: str, untold: str
) -> None:
    async def withdrawn(route: Route) -> None:
        response = await route.fetch()
        dag = await response.json()
        dag |= {"is_stale": True, "has_import_errors": is_broken, "is_paused": False, "next_run_after": None}
        if is_broken:
            dag["import_error"] = {"line": 19, "error": "SyntaxError: expected ':'"}
        await route.fulfill(response=response, json=dag)

    page = await tab.open("/dags")
    await page.route("**/api/v1/dags/hourly", withdrawn)
    await page.goto(page.url + "/hourly")

    await expect(page.get_by_text(told)).to_be_visible()
    await expect(page.get_by_text(untold)).to_have_count(0)
    await expect(page.get_by_text("next run")).to_have_count(0)
    words = page.get_by_role("alert").get_by_text("Line 19: SyntaxError: expected ':'.")
    await expect(words).to_have_count(int(is_broken))
    await expect(page.get_by_role("switch", name="hourly is not scheduled")).to_be_checked()
    await expect(page.get_by_text("active", exact=True)).to_have_count(0)


async def test_the_list_of_dags_filters_by_the_address_and_switches_dags_on(service: Service, tab: Tab) -> None:
    page = await tab.open("/dags?tag=shapes")
    await expect(page.get_by_role("row")).to_have_count(4)
    await expect(page.get_by_role("row").filter(has_text="yearly")).to_contain_text("every 1 January at 02:30")
    await tab.check_access()
    await page.keyboard.press("/")
    await page.keyboard.type("year")
    await expect(page).to_have_url(re.compile("q=year"))
    await expect(page.get_by_role("row")).to_have_count(2)

    switch = page.get_by_role("switch", name="yearly")
    await expect(switch).not_to_be_checked()
    await switch.check()
    await expect(page.get_by_text("yearly is unpaused.")).to_be_visible()
    assert not (await service.api("GET", "dags/yearly"))["is_paused"]
    await switch.uncheck()
    await expect(page.get_by_text("yearly is paused")).to_be_visible()
    assert (await service.api("GET", "dags/yearly"))["is_paused"]


async def test_a_pause_that_somebody_undoes_at_once_is_not_shown(service: Service, tab: Tab) -> None:
    await service.api("PATCH", "dags/yearly", json={"is_paused": False})
    page = await tab.open("/dags?q=yearly")
    switch = page.get_by_role("switch", name="yearly")
    await expect(switch).to_be_checked()

    async def undo_meanwhile(route: Route) -> None:
        response = await route.fetch()
        await service.api("PATCH", "dags/yearly", json={"is_paused": False})
        await route.fulfill(response=response)

    await page.route("**/api/v1/dags/yearly", undo_meanwhile)
    await switch.click()

    await expect(page.get_by_text("yearly is paused: no new tasks start")).to_be_visible()
    await expect(switch).to_be_checked()
    await service.api("PATCH", "dags/yearly", json={"is_paused": True})


async def test_the_list_of_dags_shows_the_last_runs_as_bars_that_lead_to_them(tab: Tab) -> None:
    page = await tab.open("/dags?tag=large", "dark")
    row = page.get_by_role("row").filter(has_text="wide")
    await expect(row.locator(".bars a")).to_have_count(14)
    await expect(row).to_contain_text("87 %")
    await tab.check_access()
    await tab.picture("dags-dark")
    await row.locator(".bars a").last.click()
    await expect(page).to_have_url(re.compile("/dags/wide/runs/day-100$"))


async def test_the_list_of_dags_is_sorted_and_acts_on_selected_ones(service: Service, tab: Tab) -> None:
    for theme, width in (("light", 1440), ("dark", 390)):
        page = await tab.open("/dags", theme, width)
        await expect(page.get_by_role("row").filter(has_text="wide")).to_contain_text("87 %")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert await page.evaluate(
            "[...document.querySelectorAll('.scroll')].every(e => e.scrollWidth <= e.clientWidth)"
        )
        await tab.check_access()
        await tab.picture(f"dags-list-{width}")
    page = await tab.open("/dags?tag=shapes")
    await expect(page.get_by_role("status").filter(has_text="3 of 3")).to_be_visible()
    await page.get_by_role("button", name="DAG", exact=True).click()
    await expect(page.get_by_role("columnheader", name="DAG", exact=True)).to_have_attribute("aria-sort", "descending")
    await expect(page.get_by_role("row").nth(1)).to_contain_text("yearly")

    await page.get_by_role("checkbox", name="Select yearly").check()
    await page.get_by_role("group", name="Actions on selected DAGs").get_by_role("button", name="Unpause").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_role("list", name="Preview")).to_contain_text("yearly runs are created and start")
    await dialog.get_by_role("button", name="Unpause 1 DAG").click()
    await expect(page.get_by_text("1 DAG unpaused.")).to_be_visible()
    assert not (await service.api("GET", "dags/yearly"))["is_paused"]
    await service.api("PATCH", "dags/yearly", json={"is_paused": True})

    await page.get_by_role("button", name="Favourite yearly").click()
    await page.goto(tab.url + "/dags")
    await page.get_by_role("link", name="Favourites").click()
    await expect(page.get_by_role("row")).to_have_count(2)


async def test_an_action_that_fails_for_one_of_two_dags_is_tried_again_for_that_one_only(
    service: Service, tab: Tab
) -> None:
    asked: list[str] = []

    async def refuse_once(route: Route) -> None:
        asked.append(route.request.url.rsplit("/", 1)[-1])
        if asked.count("yearly") == 1 and asked[-1] == "yearly":
            await route.fulfill(status=409, json={"detail": "somebody else changes it"})
        else:
            await route.continue_()

    page = await tab.open("/dags?tag=shapes")
    tab.expected.append("409")  # the browser logs every such answer
    await page.route("**/api/v1/dags/*", refuse_once)
    for name in ("yearly", "stages"):
        await service.api("PATCH", f"dags/{name}", json={"is_paused": True})
    await page.reload()
    for name in ("yearly", "stages"):
        await page.get_by_role("checkbox", name=f"Select {name}").check()
    await page.get_by_role("group", name="Actions on selected DAGs").get_by_role("button", name="Unpause").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("button", name="Unpause 2 DAGs").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("yearly: somebody else changes it")
    await expect(dialog.get_by_role("list", name="Preview")).to_contain_text("stages unpaused")

    await dialog.get_by_role("button", name="Unpause 1 DAG").click()

    await expect(page.get_by_text("2 DAGs unpaused.")).to_be_visible()
    assert sorted(asked) == ["stages", "yearly", "yearly"]
    await service.api("PATCH", "dags/yearly", json={"is_paused": True})


async def test_the_list_of_dags_counts_down_to_the_next_run_and_triggers(service: Service, tab: Tab) -> None:
    page = await tab.open("/dags?q=hourly")
    row = page.get_by_role("row").filter(has_text="hourly")
    await expect(row).to_contain_text("every hour")
    await expect(row).to_contain_text("0 * * * *")
    countdown = row.get_by_text(re.compile(r"^in \d"))
    before = await countdown.inner_text()
    await expect(countdown).not_to_have_text(before)

    await row.get_by_role("button", name="Trigger hourly").click()
    form = page.get_by_role("dialog", name="Trigger hourly")
    await form.get_by_label("Run id").fill("from-the-list")
    await form.get_by_role("button", name="Trigger", exact=True).click()
    await expect(row.get_by_role("link", name=re.compile("^Run of hourly: success, ")).first).to_be_visible()
    await expect(row).to_contain_text(re.compile(r"\d\sm?s / \d"))  # p50 and p95


async def test_the_calendar_leads_to_the_runs_of_a_day_and_the_grid_is_filtered(tab: Tab) -> None:
    page = await tab.open("/dags/wide?tab=calendar")
    await page.get_by_role("link", name=re.compile("1 failed")).first.click()
    await expect(page).to_have_url(re.compile(r"tab=runs&from=(.*)&to=\1$"))
    await expect(page.get_by_role("row").filter(has_text="failed")).to_have_count(1)

    await page.goto(f"{tab.url}/dags/wide")
    await expect(page.get_by_role("grid")).to_have_attribute("aria-colcount", "30")
    await page.get_by_label("State").select_option(label="failed")
    await expect(page.get_by_role("grid")).to_have_attribute("aria-colcount", "11")
    await page.get_by_label("State").select_option(label="any")
    await page.get_by_role("button", name="Older").click()
    await expect(page).to_have_url(re.compile("before="))
    await page.get_by_role("button", name="Newest").click()
    await expect(page).not_to_have_url(re.compile("before="))


async def test_a_trigger_form_is_made_from_the_schema_and_shows_errors_at_their_fields(
    service: Service, tab: Tab
) -> None:
    tab.expected.append("422")  # the browser logs every such answer
    page = await tab.open("/dags/choices")
    await page.get_by_role("button", name="Trigger …").click()
    form = page.get_by_role("dialog", name="Trigger choices")
    await expect(form.get_by_label("city")).to_have_value("Amsterdam")
    await expect(form.get_by_label("until")).to_have_attribute("type", "date")
    params = ["city", "days", "unit", "loud", "fresh", "at", "letter", "names", "more", "until"]
    names = [*params, "Logical date (UTC)", "Run id"]
    await expect(form.locator(".field > label")).to_have_text(names)  # in the order of the file
    await tab.check_access()
    await tab.picture("trigger")

    await form.get_by_label("days").fill("a week")
    await expect(form.get_by_text("is not a number: a week")).to_be_visible()
    await expect(form.get_by_role("button", name="Trigger", exact=True)).to_be_disabled()
    await form.get_by_label("days").fill("400")
    await form.get_by_label("unit").select_option(label="fahrenheit")
    await form.get_by_label("fresh").select_option(label="false")
    await form.get_by_label("letter").press("ControlOrMeta+End")
    await form.get_by_label("letter").type("!")
    await form.get_by_label("names").fill("ada\ngrace")
    await expect(form.locator(".cli code")).to_have_text(
        "aiosched dags trigger choices -p days=400 -p unit=fahrenheit -p fresh=false -p 'letter=Dear all,\nhello!!'"
        """ -p 'names=["ada","grace"]'"""
    )
    await form.get_by_role("button", name="Trigger", exact=True).click()
    await expect(form.locator(".field").filter(has_text="days").locator(".wrong")).to_contain_text("400")

    await form.get_by_label("days").fill("3")
    await form.get_by_label("Run id").fill("by-form")
    await form.get_by_role("button", name="Trigger", exact=True).click()
    await expect(form).not_to_be_visible()
    grid = page.get_by_role("grid")
    await expect(grid.get_by_role("gridcell")).to_contain_text("manual run, success")  # as news tell it
    run = await service.api("GET", "dags/choices/runs/by-form")
    changed = {"fresh": False, "letter": "Dear all,\nhello!!", "names": ["ada", "grace"]}
    assert run["conf"] == {"days": 3, "unit": "fahrenheit"} | changed


UNREADABLE: list[dict[str, Any]] = [  # parts of schemas that older versions of aiosched have stored
    {"type": 7}, {"type": [7]}, {"type": {"a": 1}}, {"type": None}, {"type": "string", "format": "constructor"},
    {"enum": "abc"}, {"enum": 7}, {"enum": {"a": 1}}, {"examples": "abc"}, {"examples": {"a": 1}}, {"examples": 7},
    {"title": 7}, {"title": ["a"]}, {"title": {"a": 1}}, {"description": {"a": 1}}, {"format": 7}, {"pattern": [7]},
    {"minimum": "x"}, {"minimum": None}, {"maximum": [1]}, {"minLength": "x"}, {"maxLength": {"a": 1}},
    {"items": "abc", "type": "array"}, {"items": [7], "type": "array"}, {"properties": "abc"}, {"anyOf": 7},
    {"values_display": "abc", "enum": ["a"]}, {"values_display": 7, "enum": ["a"]},
]  # fmt: skip


async def test_a_trigger_form_ignores_what_it_cannot_read_of_a_schema(service: Service, tab: Tab) -> None:
    schemas = {f"p{number}": schema for number, schema in enumerate(UNREADABLE)}
    version = (await service.api("GET", "dags/choices"))["version"]
    found = await service.api("GET", f"dags/choices/versions/{version}")
    found["spec"]["params"] = {name: {"value": "a", "json_schema": schema} for name, schema in schemas.items()}
    await tab.page.route("**/api/v1/dags/choices/versions/*", lambda route: route.fulfill(json=found))
    page = await tab.open("/dags/choices")

    await page.get_by_role("button", name="Trigger …").click()

    form = page.get_by_role("dialog", name="Trigger choices")
    await expect(form.locator(".field > label")).to_have_text([*schemas, "Logical date (UTC)", "Run id"])
    await expect(form.locator(".field .help")).to_have_text(
        ["JSON", "JSON", re.compile("interval"), re.compile("generate")]
    )
    await form.get_by_label("p5", exact=True).fill("b")
    await expect(form.locator(".cli code")).to_have_text("aiosched dags trigger choices -p p5=b")


async def test_a_paused_dag_with_a_waiting_run_says_so(service: Service, tab: Tab) -> None:
    await service.execute(
        "INSERT INTO dag_run (dag_id, run_id, partition, version_id, run_type, triggered_by, state, run_after)"
        " SELECT dag_id, 'waits', partition, version_id, 'manual', 'test', 'queued', now() FROM dag"
        " WHERE dag_id = 'yearly'"
    )
    page = await tab.open("/dags/yearly")
    await expect(page.get_by_text("This DAG is paused and 1 run is waiting")).to_be_visible()
    await page.goto(f"{tab.url}/dags?q=yearly")
    await expect(page.get_by_text("paused, 1 run waiting")).to_be_visible()
    await page.goto(tab.url)
    await expect(page.get_by_text("yearly is paused while a run waits")).to_be_visible()
    await service.execute("DELETE FROM dag_run WHERE dag_id = 'yearly'")


async def read_no_grid_any_more(tab: Tab) -> None:
    """What the grid shows from now on it has from news; a page that heard none for a while would read it all again."""
    tab.expected.append("Failed to load resource")
    await tab.page.route("**/grid?*", lambda route: route.abort())


async def test_the_grid_follows_a_running_run_by_news_alone(service: Service, tab: Tab, tmp_path: Path) -> None:
    gate = tmp_path / "open"
    await service.run("gated", "running", "follow", {"file": str(gate)})
    async with tab.page.expect_response(re.compile("stream.*topic=run")):
        page = await tab.open("/dags/gated?run=follow&task=wait")
    cell = page.get_by_role("gridcell")
    await expect(cell).to_contain_text("wait, running")
    await read_no_grid_any_more(tab)
    gate.touch()
    await expect(cell).to_contain_text("wait, success")
    await page.get_by_role("grid").press("ArrowUp")
    await expect(cell).to_contain_text("manual run, success")


async def test_the_grid_follows_mapped_instances_by_news_alone(service: Service, tab: Tab) -> None:
    await service.api("PUT", "pools/gate", json={"slots": 0})
    await service.run("fanned", "running", "follow-many")
    async with tab.page.expect_response(re.compile("stream.*topic=run")):
        page = await tab.open("/dags/fanned?run=follow-many&task=each")
    cell = page.get_by_role("gridcell")
    await expect(cell).to_contain_text("each, 4 scheduled")
    await read_no_grid_any_more(tab)
    await service.api("PUT", "pools/gate", json={"slots": 4})
    await expect(cell).to_contain_text("each, 4 success")
    await page.get_by_role("grid").press("ArrowUp")
    await expect(cell).to_contain_text("manual run, success")


async def test_the_grid_opens_with_the_failure_of_the_run_that_ended_last(service: Service, tab: Tab) -> None:
    await service.run("troubled", "failed", "last-of-all")
    page = await tab.open("/dags/troubled")

    panel = page.get_by_role("region", name="Selected")
    await expect(panel).to_contain_text("divide")
    await expect(panel).to_contain_text("ZeroDivisionError: division by zero")
    await expect(panel.get_by_label("End of the log")).to_contain_text("about to divide")
    log = panel.get_by_role("link", name="View the whole log")
    await expect(log).to_have_attribute("href", "/dags/troubled/runs/last-of-all/tasks/divide")
    await expect(page).to_have_url(re.compile("/dags/troubled$"))
    await tab.looks_well("grid-failure")

    await page.get_by_role("grid").press("Escape")
    await expect(panel).to_have_count(0)
    await page.get_by_role("grid").press("ArrowLeft")
    await expect(panel).to_contain_text("Run")


async def test_the_grid_opens_with_the_first_failed_instance_of_a_mapped_task(service: Service, tab: Tab) -> None:
    (service.dags / "mapped_failing.py").write_text(
        "from aiosched import DAG, task\n\n"
        "with DAG('mapped_failing', schedule=None):\n\n"
        "    @task\n    def inverse(number):\n        return 1 / number\n\n    inverse.expand(number=[2, 1, 0, 0])\n"
    )
    page = await tab.open("/dags?q=mapped_failing")
    await expect(page.get_by_role("link", name="mapped_failing")).to_be_visible()
    await service.run("mapped_failing", "failed", "to-see")

    await page.goto(f"{tab.url}/dags/mapped_failing")

    panel = page.get_by_role("region", name="Selected")
    await expect(panel).to_contain_text("inverse[2]")
    await expect(panel).to_contain_text("ZeroDivisionError: division by zero")
    log = panel.get_by_role("link", name="View the whole log")
    await expect(log).to_have_attribute("href", "/dags/mapped_failing/runs/to-see/tasks/inverse%5B2%5D")
    await tab.check_access()


async def test_the_gantt_chart_folds_groups_and_says_what_never_started(service: Service, tab: Tab) -> None:
    await service.run("stages", "failed", "for-gantt")
    for address in ("/dags/stages?tab=gantt&run=for-gantt", "/dags/stages/runs/for-gantt?tab=time"):
        page = await tab.open(address)
        chart = page.get_by_role("listbox", name="Gantt chart of the run")
        row = chart.get_by_role("option")
        await chart.press("ArrowDown")
        await expect(row).to_contain_text(re.compile("^names, try 1: success"))
        await chart.press("ArrowDown")
        await expect(row).to_contain_text(re.compile(r"^people, group, took \d"))
        await chart.press("ArrowDown")
        await expect(row).to_contain_text("people.greet[0], try 1: success")
        await chart.press("End")
        await expect(row).to_contain_text("never, never started: upstream failed")
        await tab.check_access()
        await tab.picture("gantt-groups")
        await chart.press("Home")
        await chart.press("ArrowDown")
        await chart.press("Enter")
        await expect(page).to_have_url(re.compile("fold=people"))
        await chart.press("ArrowDown")
        await expect(row).to_contain_text("fail, try 1: failed")
        await chart.press("End")
        await chart.press("Enter")
        await expect(page).to_have_url(re.compile("/dags/stages/runs/for-gantt/tasks/never$"))


async def test_the_gantt_chart_has_a_task_that_has_not_started_yet(service: Service, tab: Tab, tmp_path: Path) -> None:
    gate = tmp_path / "open"
    await service.run("gated", "running", "gantt-waits", {"file": str(gate)})
    page = await tab.open("/dags/gated?tab=gantt&run=gantt-waits")
    chart = page.get_by_role("listbox", name="Gantt chart of the run")
    await chart.press("End")
    await expect(chart.get_by_role("option")).to_have_text("after, not started yet")
    gate.touch()
    await expect(chart.get_by_role("option")).to_contain_text("after, try 1: success")


async def test_the_grid_is_walked_folded_and_opened_by_keys(service: Service, tab: Tab) -> None:
    await service.run("stages", "failed", "for-keys")
    page = await tab.open("/dags/stages?run=for-keys&task=people")
    cell = page.get_by_role("gridcell")
    await expect(cell).to_contain_text("people, 3 success")
    await page.get_by_role("grid").focus()
    await page.keyboard.press("ArrowDown")
    await expect(cell).to_contain_text("people.greet, 3 success")
    await page.keyboard.press("ArrowDown")
    await expect(cell).to_have_text(re.compile(r"^Task fail, failed, in the run of .* \(for-keys\)\.$"))
    await expect(page).to_have_url(re.compile("task=fail"))
    await tab.check_access()
    await page.keyboard.press("ArrowUp")
    await page.keyboard.press("ArrowUp")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile("fold=people"))
    await page.keyboard.press("ArrowDown")
    await expect(cell).to_contain_text("fail, failed")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile("/dags/stages/runs/for-keys/tasks/fail$"))


async def test_clearing_a_selection_of_the_grid_shows_what_it_touches_first(service: Service, tab: Tab) -> None:
    await service.run("stages", "failed", "for-clear")
    page = await tab.open("/dags/stages?run=for-clear&task=fail")
    await page.get_by_role("grid").focus()
    await page.keyboard.press("Shift+ArrowDown")
    await page.get_by_role("button", name="Clear …").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_text("2 instances in 1 run will run again")).to_be_visible()
    await expect(dialog.locator(".cli code")).to_have_text(
        "aiosched tasks clear stages --run for-clear --task-id fail --task-id never"
    )
    await tab.check_access()
    await tab.picture("clear")
    await dialog.get_by_role("button", name="Clear 2").click()
    await expect(page.get_by_text(re.compile(r"^\d+ tasks? cleared and requeued\.$"))).to_be_visible()
    commands = await service.api("GET", "commands", params={"dag_id": "stages", "verb": "clear", "state": "applied"})
    assert commands["items"][0]["args"]["task_ids"] == ["fail", "never"]


async def test_a_grid_of_ten_thousand_cells_is_painted_and_walked_at_once(tab: Tab) -> None:
    used = await tab.processor_times()
    page = await tab.open("/dags/wide?limit=100&run=day-100&task=part_9.step_8")
    await expect(page.get_by_role("gridcell")).to_contain_text("part_9.step_8")
    paint = await tab.measured("aiosched.grid")
    assert paint["detail"]["cells"] == 10_000
    painted = await used()
    step = await page.evaluate(STEP, ['[role="grid"]', "key", STEPS])
    stepped = (await used() - painted) / STEPS
    print(f"10,000 cells: {paint['duration']:.0f} ms, {painted:.0f} of the processor; a step {step:.0f}, {stepped:.0f}")
    assert painted < LARGE_FIRST_PAINT
    assert stepped < LARGE_STEP
    await tab.check_access()
    await tab.picture("grid-wide")


async def test_a_graph_of_a_thousand_boxes_is_painted_and_zoomed_at_once(tab: Tab) -> None:
    used = await tab.processor_times()
    page = await tab.open("/dags/vast?tab=graph&run=day-002")
    await expect(page.get_by_role("application")).to_have_attribute("aria-label", re.compile("1000 nodes"))
    paint = await tab.measured("aiosched.graph")
    assert paint["detail"]["nodes"] == 1_000
    painted = await used()
    step = await page.evaluate(STEP, [".graphbox", "wheel", STEPS])
    stepped = (await used() - painted) / STEPS
    print(f"1,000 boxes: {paint['duration']:.0f} ms, {painted:.0f} of the processor; a step {step:.0f}, {stepped:.0f}")
    assert painted < LARGE_FIRST_PAINT
    assert stepped < LARGE_STEP
    await tab.check_access()
    await tab.picture("graph-vast")


async def test_the_graph_folds_groups_and_follows_its_lines_by_keys(service: Service, tab: Tab) -> None:
    await service.run("stages", "failed", "for-graph")
    page = await tab.open("/dags/stages?tab=graph&run=for-graph&task=people.greet&critical=1", "dark")
    chosen = page.get_by_label("Selected")
    await expect(chosen).to_contain_text("people.greet")
    await expect(chosen).to_contain_text("3 success")
    await page.get_by_role("application").focus()
    await page.keyboard.press("ArrowRight")
    await expect(chosen).to_contain_text("fail")
    await tab.check_access()
    await tab.picture("graph")
    await page.goto(f"{tab.url}/dags/stages?tab=graph&fold=people&task=people")
    await expect(chosen).to_contain_text("group")
    await page.get_by_role("button", name="Unfold").click()
    await expect(page).not_to_have_url(re.compile("fold="))


VIEWS = {
    "gantt": "day-100",
    "calendar": "upcoming",
    "runs": "day-100",
    "code": "large.py",
    "details": "Max active runs",
}


async def test_each_view_of_a_dag_is_at_its_address(tab: Tab) -> None:
    for view, shown in VIEWS.items():
        page = await tab.open(f"/dags/wide?tab={view}")
        await expect(page.get_by_role("main").get_by_text(shown).first).to_be_visible()


async def test_code_shows_what_changed_between_two_versions(service: Service, tab: Tab) -> None:
    file = service.dags / "changing.py"
    text = "from aiosched import DAG, EmptyOperator\n\nwith DAG('changing', schedule=None):\n"
    file.write_text(f"{text}    EmptyOperator(task_id='first')\n")
    page = await tab.open("/dags?q=changing")
    await expect(page.get_by_role("link", name="changing")).to_be_visible()
    await service.run("changing", "success", "of-first")  # a version that no run used would be replaced
    file.write_text(f"{text}    EmptyOperator(task_id='second')\n")
    await page.goto(f"{tab.url}/dags/changing?tab=code&against=1")
    changes = page.get_by_role("group", name="Changes")
    await expect(changes.locator("td.minus").nth(1)).to_have_text("    EmptyOperator(task_id='first')")
    await expect(changes.locator("td.plus").nth(1)).to_have_text("    EmptyOperator(task_id='second')")
    structure = page.get_by_role("list", name="Changes of the structure").get_by_role("listitem")
    await expect(structure).to_have_text(["task first removed", "task second added"])
    await tab.looks_well("code-diff")
    side_by_side = page.get_by_label("Side by side")
    await page.set_viewport_size({"width": 390, "height": 900})
    await expect(side_by_side).not_to_be_checked()
    await page.set_viewport_size({"width": 1440, "height": 900})
    await side_by_side.uncheck()
    await expect(page.get_by_role("row").filter(has_text="+    EmptyOperator(task_id='second')")).to_be_visible()
    await page.goto(f"{tab.url}/dags/changing?tab=code&version=1")
    await page.get_by_text("1 run of this version").click()
    await expect(page.get_by_role("link", name="· manual")).to_have_attribute("href", "/dags/changing/runs/of-first")


async def test_code_shows_modules_and_what_changed_in_them(service: Service, tab: Tab) -> None:
    helper = service.dags / "words_of_modules.py"
    helper.write_text("WORD = 'one'\n")
    text = (
        "import words_of_modules\nfrom aiosched import DAG, EmptyOperator\n\nwith DAG('with_module', schedule=None):\n"
    )
    (service.dags / "with_module.py").write_text(f"{text}    EmptyOperator(task_id='first')\n")
    page = await tab.open("/dags?q=with_module")
    await expect(page.get_by_role("link", name="with_module")).to_be_visible()
    await service.run("with_module", "success", "of-first")
    helper.write_text("WORD = 'two'\n")

    await page.goto(f"{tab.url}/dags/with_module?tab=code&against=1")

    row = page.get_by_role("row").filter(has_text="WORD = 'one'")
    await expect(row).to_contain_text("WORD = 'two'")
    await expect(page.get_by_text("Tasks, edges, schedule and params are the same.")).to_be_visible()
    await expect(page.get_by_text("The DAG's own file is unchanged: the module below changed")).to_be_visible()
    await tab.check_access()
    await page.goto(f"{tab.url}/dags/with_module?tab=code&version=1")
    await page.get_by_label("File").select_option("words_of_modules.py")
    await expect(page.get_by_role("group", name="Source")).to_contain_text("WORD = 'one'")
    await tab.check_access()


async def test_on_a_narrow_screen_a_button_opens_the_menu(tab: Tab) -> None:
    page = await tab.open("/dags/wide", width=390)
    await page.get_by_role("button", name="Menu").click()
    await page.get_by_role("navigation", name="Main").get_by_role("link", name="DAGs").click()
    await expect(page).to_have_url(re.compile("/dags$"))


async def test_the_tabs_of_a_page_do_not_scroll_up_and_down(tab: Tab) -> None:
    page = await tab.open("/dags/wide")
    tabs = page.locator(".tabs")
    await expect(tabs).to_be_visible()

    assert await tabs.evaluate("tabs => getComputedStyle(tabs).overflowY") == "hidden"  # no scrollbar either


async def test_the_keyboard_leads_through_the_pages_and_lists_itself(tab: Tab) -> None:
    page = await tab.open("/")
    await expect(page.get_by_role("heading", name="Home")).to_be_visible()
    await tab.two_keys("g", "d")
    await expect(page).to_have_url(re.compile("/dags$"))
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_contain_text("search DAGs")


async def test_a_very_long_name_breaks_on_a_phone(service: Service, tab: Tab) -> None:
    tab.expected.append("404")  # no DAG has this name
    long = "a_very_long_name_" * 13
    await service.run("making", "success", "long-name")
    found = await service.api("GET", "dags/making/runs/long-name")
    await tab.page.route("**/api/v1/dags/*/runs/long-name", lambda route: route.fulfill(json={**found, "dag_id": long}))
    page = await tab.open("/dags/making/runs/long-name", width=390)
    await expect(page.get_by_role("link", name=long).first).to_be_visible()
    await tab.fits()

    pools = await service.api("GET", "pools")
    pools["items"][0]["name"] = long
    await tab.page.route("**/api/v1/pools?*", lambda route: route.fulfill(json=pools))
    await page.goto(f"{tab.url}/pools")
    await expect(page.get_by_text(long).first).to_be_visible()
    await tab.fits()


async def test_a_schedule_names_its_clock_where_another_one_is_shown(browser: Browser, service: Service) -> None:
    context = await browser.new_context(timezone_id="Asia/Tokyo")
    page = await context.new_page()

    async def elsewhere(route: Route) -> None:
        response = await route.fetch()
        zone = {"schedule": "0 7 * * *", "schedule_timezone": "Asia/Tokyo"}
        await route.fulfill(response=response, json=await response.json() | zone)

    await page.route("**/api/v1/dags/nightly", elsewhere)
    await page.goto(f"{service.url}/dags/nightly")
    words = page.locator(".schedule").first
    await expect(words).to_contain_text("every day at 07:00 Asia/Tokyo")

    await page.get_by_role("button", name="UTC").click()  # now the shown clock is the schedule's

    await expect(words).to_contain_text("every day at 07:00")
    await expect(words).not_to_contain_text("Asia/Tokyo")
    await context.close()


async def test_in_a_window_that_becomes_narrow_the_newest_days_and_runs_are_seen(tab: Tab) -> None:
    page = await tab.open("/dags/wide?tab=calendar", width=1920)
    today = page.locator(".day.today")
    await expect(today).to_be_visible()
    await page.set_viewport_size({"width": 390, "height": 900})
    await expect(today).to_be_in_viewport()

    page = await tab.open("/dags/wide", width=1920)
    await expect(page.get_by_role("grid")).to_have_attribute("aria-colcount", "30")
    await page.set_viewport_size({"width": 390, "height": 900})
    await page.wait_for_function(
        """() => {
            const box = document.querySelector(".gridbox");
            return box.scrollLeft > 0 && box.scrollLeft + box.clientWidth > box.scrollWidth - 30;
        }"""
    )


async def test_a_log_and_its_why_leave_room_for_the_lines(service: Service, tab: Tab) -> None:
    await service.run("troubled", "failed", "with-room")
    address = "/dags/troubled/runs/with-room/tasks/divide"
    page = await tab.open(address, width=1440)
    command = page.get_by_text("aiosched tasks logs troubled")
    await expect(page.get_by_role("link", name="Download")).to_be_visible()
    await expect(page.get_by_title("Jump to the next error (e)")).to_be_visible()
    await expect(command).to_be_visible()
    assert await page.locator(".log .bar").evaluate("(bar) => bar.clientHeight") < 60, "one row"

    page = await tab.open(address, width=390)
    await page.get_by_text("What you can do").scroll_into_view_if_needed()
    await expect(command).to_be_hidden()
    await page.get_by_text("What you can do").click()
    await expect(command).to_be_visible()


async def test_a_sentence_with_code_stays_a_sentence_in_a_notice(tab: Tab) -> None:
    page = await tab.open("/users", width=900)
    notice = page.locator(".notice.warn").filter(has_text="requires no login")
    await expect(notice).to_contain_text('an administrator. Set web.auth = "password" to change that.')
    lines = "(box) => { const range = document.createRange(); range.selectNodeContents(box.firstChild); return "
    width = await notice.evaluate(lines + "range.getBoundingClientRect().width / box.clientWidth; }")
    assert width > 0.8, "not a column beside others"
