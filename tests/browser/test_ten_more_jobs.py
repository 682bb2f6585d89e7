"""Ten more questions of a person on duty, each of at most three clicks from Home: see `benchmarks.jobs`."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import pytest
import pytest_asyncio
from playwright.async_api import expect

from benchmarks.jobs import MOST_CLICKS, WIDTHS, Hand
from tests.browser.conftest import Service, Tab

pytestmark = pytest.mark.asyncio(loop_scope="session")

BROKEN: Final = (
    "INSERT INTO dag_file (file, partition, dag_ids, error) VALUES ('on_duty_{}.py', 0, '{{}}', 'SyntaxError: oh')"
)


async def what_runs_in_the_next_hours(service: Service, hand: Hand) -> None:
    lanes = hand.page.locator(".timeline .lane")
    more = hand.page.get_by_role("button", name=re.compile(r"^Show \d+ more DAGs"))
    await expect(lanes).not_to_have_count(0)
    if await more.count():
        await hand.click(more)
    lane = lanes.filter(has=hand.page.get_by_role("link", name="hourly", exact=True))
    await hand.sees(re.compile(r"^\d\d:00$"), lane)


async def find_a_task_by_a_part_of_its_name(service: Service, hand: Hand) -> None:
    await hand.search("greet", "people.greet")
    await hand.sees("people.greet", hand.page.get_by_role("region", name="Selected"))


async def trigger_with_params_and_a_past_date(service: Service, hand: Hand) -> None:
    await hand.search("choices", "Trigger a run")
    form = hand.page.get_by_role("dialog", name="Trigger choices")
    await form.get_by_label("days").fill("3")
    date = f"2026-01-02 0{1 + hand.is_phone}:00"
    await form.get_by_label("Logical date (UTC)").fill(date)
    await hand.click(form.get_by_role("button", name="Trigger", exact=True))
    await hand.sees(re.compile("^2 Jan"), hand.page.get_by_role("region", name="Selected"))


async def backfill_a_month_and_watch(service: Service, hand: Hand) -> None:
    month = 4 + hand.is_phone
    await hand.search("duty_daily", "Run a backfill")
    dialog = hand.page.get_by_role("dialog")
    await dialog.get_by_label("From", exact=True).fill(f"2026-0{month}-01")
    await dialog.get_by_label("To, inclusive").fill(f"2026-0{month}-30")
    await hand.click(dialog.get_by_role("button", name="Run 30 dates"))
    row = hand.page.get_by_role("row").filter(has_text=f"2026-0{month}-01")
    await hand.sees(re.compile(r"\d+ of 30"), row)


async def answer_a_question(service: Service, hand: Hand) -> None:
    await service.run("duty_asking", "running", f"on-duty-{hand.is_phone}")
    item = hand.page.get_by_role("listitem").filter(has_text="tea of duty_asking asks: Which tea?")
    await hand.click(item.get_by_role("link", name="Answer"))
    dialog = hand.page.get_by_role("dialog", name="Which tea?")
    await hand.click(dialog.get_by_role("radio", name="green"))
    await hand.click(dialog.get_by_role("button", name="Answer"))
    await hand.sees("No open questions")


async def what_changed_in_the_code(service: Service, hand: Hand) -> None:
    await hand.search("edited", "View what changed in the code")
    structure = hand.page.get_by_role("list", name="Changes of the structure")
    await hand.sees("task first removed", structure)
    await hand.sees("task second added", structure)


async def who_changed_a_variable(service: Service, hand: Hand) -> None:
    await service.api("PUT", "variables/region", json={"value": "eu"})
    await hand.search("secrets", "Secrets")
    row = hand.page.get_by_role("row").filter(has_text="region")
    await hand.sees("by api:local", row)


async def silence_an_alert(service: Service, hand: Hand) -> None:
    item = hand.page.get_by_role("listitem").filter(has_text=re.compile(r"on_duty_\d+\.py cannot be imported"))
    await hand.click(item.get_by_role("link", name=re.compile("^View alert")))
    row = hand.page.get_by_role("row").filter(has_text=re.compile(r"on_duty_\d+\.py cannot be imported"))
    await hand.click(row.get_by_role("button", name="Silence"))
    dialog = hand.page.get_by_role("dialog")
    await dialog.get_by_label("Reason").fill("being mended")
    await hand.click(dialog.get_by_role("button", name="Silence"))
    await hand.sees("silenced, ends in", row)


async def give_somebody_access(service: Service, hand: Hand) -> None:
    name = f"ada-{hand.is_phone}".lower()
    await service.api("POST", "users", json={"name": name, "password": "a long password 1", "role": "viewer"})
    await hand.search("grant", "Grant access to DAGs")
    dialog = hand.page.get_by_role("dialog")
    await dialog.get_by_label("User").fill(name)
    await dialog.get_by_label("Name").fill("sales")
    await hand.click(dialog.get_by_role("button", name="Grant", exact=True))
    await hand.sees("viewer@team:sales", hand.page.get_by_role("row").filter(has_text=name))


async def go_from_failure_to_failure(service: Service, hand: Hand) -> None:
    await hand.click(hand.page.get_by_role("link", name=re.compile("runs? failed")))
    await hand.click(hand.page.get_by_role("row").nth(1).locator("a[href*='/runs/']").first)
    first = hand.page.url
    await hand.click(hand.page.get_by_role("link", name="Next failed"))
    await expect(hand.page).not_to_have_url(first)
    await hand.sees("failed")


JOBS: Final[dict[str, Callable[[Service, Hand], Awaitable[None]]]] = {
    "what runs in the next hours": what_runs_in_the_next_hours,
    "find a task by a part of its name": find_a_task_by_a_part_of_its_name,
    "trigger with params and a past date": trigger_with_params_and_a_past_date,
    "backfill a month and watch": backfill_a_month_and_watch,
    "answer a question": answer_a_question,
    "what changed in the code": what_changed_in_the_code,
    "who changed a variable": who_changed_a_variable,
    "silence an alert": silence_an_alert,
    "give somebody access": give_somebody_access,
    "go from failure to failure": go_from_failure_to_failure,
}


# ---- what there is to find, by question ----


async def a_run(service: Service, tab: Tab, width: int) -> None:
    await service.run("stages", "failed", f"on-duty-{width}")


async def two_failures(service: Service, tab: Tab, width: int) -> None:
    for number in (1, 2):
        await service.run("troubled", "failed", f"on-duty-{width}-{number}")


async def an_alert(service: Service, tab: Tab, width: int) -> None:
    await service.api("PUT", "alert-rules/on-duty", json={"kind": "import_error", "notifier": "ops"})
    await service.execute(BROKEN.format(width))
    page = await tab.open("/alerts")
    await expect(page.get_by_text(f"on_duty_{width}.py cannot be imported").first).to_be_visible()


async def two_versions(service: Service, tab: Tab, width: int) -> None:
    file = service.dags / "edited.py"
    if file.exists():
        return
    text = "from aiosched import DAG, EmptyOperator\n\nwith DAG('edited', schedule=None):\n"
    file.write_text(f"{text}    EmptyOperator(task_id='first')\n")
    page = await tab.open("/dags?q=edited")
    await expect(page.get_by_role("link", name="edited")).to_be_visible()
    await service.run("edited", "success", "of-first")
    file.write_text(f"{text}    EmptyOperator(task_id='second')\n")
    await page.goto(f"{service.url}/dags/edited?tab=code&against=previous")
    await expect(page.get_by_role("list", name="Changes of the structure")).to_be_visible()


PREPARED: Final = {
    "find a task by a part of its name": a_run,
    "go from failure to failure": two_failures,
    "silence an alert": an_alert,
    "what changed in the code": two_versions,
}


@pytest_asyncio.fixture(loop_scope="session")
async def _nothing_left(service: Service) -> AsyncIterator[None]:
    yield
    for backfill in (await service.api("GET", "backfills", params={"dag_id": "duty_daily"}))["items"]:
        if backfill["state"] == "running":
            await service.api("POST", f"backfills/{backfill['id']}/cancel")
    await service.execute("DELETE FROM dag_file WHERE file LIKE 'on_duty\\_%'")
    await service.execute("DELETE FROM alert_rule WHERE name = 'on-duty'")
    await service.execute("DELETE FROM alert_silence WHERE reason = 'being mended'")
    await service.execute("DELETE FROM web_user WHERE name LIKE 'ada-%'")
    await service.execute("DELETE FROM variable WHERE key = 'region'")


@pytest.mark.usefixtures("_nothing_left")
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("question", JOBS)
async def test_a_job_takes_at_most_three_clicks_from_home(
    service: Service, tab: Tab, question: str, width: int, record_property: Callable[[str, object], None]
) -> None:
    if question in PREPARED:
        await PREPARED[question](service, tab, width)
    page = await tab.open("/", width=width)
    await expect(page.get_by_label("Now")).to_be_visible()
    await expect(page.locator(".skeleton")).to_have_count(0)
    hand = Hand(page)

    await JOBS[question](service, hand)

    record_property(f"{question}, {width} px: clicks", hand.clicks)
    assert hand.clicks <= MOST_CLICKS
