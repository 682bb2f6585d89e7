"""Ten questions of a person on duty, answered at a page in Chromium: how many clicks from Home, and how long.

Typing into the search is no click, choosing a result is one; a list of choices costs two, to open it and to choose.
On a phone there is no Ctrl-K: the button of the search is a click, too. `tests/browser` does the same on fewer rows.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from playwright.async_api import Browser, Locator, Page, Request, async_playwright, expect

from benchmarks import measure
from benchmarks.figures import Figure, Finding
from benchmarks.job_stage import NIGHTLY, JobStage, job_stage
from benchmarks.stage import stage

MOST_CLICKS: Final = 3
_MOST_MS: Final = 2000.0
_ROUNDS: Final = 3
WIDTHS: Final = (1440, 390)
_IGNORED: Final = ("/stream", "/logs/")  # answers that stay open


class Hand:
    """Somebody at a page: counts the clicks, and the requests with the milliseconds that the server took for them."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.clicks = self.requests = 0
        self.server_ms = 0.0
        page.on("requestfinished", self._see)

    @property
    def is_phone(self) -> bool:
        size = self.page.viewport_size
        return size is not None and size["width"] < 600

    async def click(self, target: Locator) -> None:
        await target.click()
        self.clicks += 1

    async def search(self, words: str, found: str) -> None:
        """Type into the search, and go to what it found."""
        if self.is_phone:
            await self.click(self.page.get_by_role("button", name="Search"))
        else:
            await self.page.keyboard.press("Control+k")
        await self.page.get_by_role("combobox", name="Search").fill(words)
        await self.click(self.page.get_by_role("option").filter(has_text=found).first)

    async def sees(self, words: str | re.Pattern[str], within: Locator | None = None) -> None:
        await expect((within or self.page.get_by_role("main")).get_by_text(words).first).to_be_visible()

    def _see(self, request: Request) -> None:
        if "/api/v1/" in request.url and not any(part in request.url for part in _IGNORED):
            timing = request.timing
            self.requests += 1
            self.server_ms += max(timing["responseStart"] - timing["requestStart"], 0.0)


class HandOnStage(Hand):
    """The same, on the stage of these jobs."""

    def __init__(self, page: Page, stage: JobStage) -> None:
        super().__init__(page)
        self.stage = stage


# ---- the jobs, each from Home ----


async def rerun_what_failed(hand: Hand) -> None:
    page = hand.page
    item = page.get_by_role("listitem").filter(has_text=re.compile(rf"{NIGHTLY}\s+failed in"))
    await hand.click(item.get_by_role("link", name="View run"))
    await hand.sees("KeyError: 'currency'")
    await hand.click(page.get_by_role("button", name="Rerun failed (1)"))
    dialog = page.get_by_role("dialog")
    await hand.sees("load", dialog)
    await hand.click(dialog.get_by_role("button", name="Clear 2"))
    await expect(dialog).to_have_count(0)


async def what_fills_the_pool(hand: Hand) -> None:
    item = hand.page.get_by_role("listitem").filter(has_text="pool 'warehouse': all 4 slots are occupied")
    await hand.click(item.get_by_role("link", name="View pool"))
    await hand.sees("Slots held by DAG: warehouse_sync 4", hand.page.get_by_role("region", name="Pool warehouse"))


async def what_runs_now(hand: Hand) -> None:
    await hand.click(hand.page.get_by_role("link", name=re.compile("tasks? running")))
    await hand.sees("catch_up")
    await hand.sees("copy")


async def what_is_late(hand: Hand) -> None:
    await hand.click(hand.page.get_by_role("link", name=re.compile("DAG is late|DAGs are late")))
    await hand.sees("lagging")
    await expect(hand.page.get_by_role("row")).to_have_count(2)  # the head, and the only one that is late


async def failures_of_a_team(hand: Hand) -> None:
    await hand.click(hand.page.get_by_role("link", name=re.compile("runs? failed")))
    await hand.click(hand.page.get_by_role("button", name="Add a filter"))
    await hand.page.get_by_role("searchbox", name="Filter or value …").fill("sales")
    await hand.click(hand.page.get_by_role("button", name=re.compile("^Owner: sales")))
    await hand.sees(re.compile("^1 run"))
    await hand.sees(NIGHTLY)


async def is_it_getting_slower(hand: Hand) -> None:
    await hand.search(NIGHTLY, NIGHTLY)
    await hand.click(hand.page.get_by_role("link", name="Trends", exact=True))
    await hand.sees(re.compile(r"% longer than the \d+ runs before"))


async def compared_with_yesterday(hand: HandOnStage) -> None:
    await hand.search(f"{NIGHTLY} {hand.stage.last_night}", hand.stage.last_night)
    await hand.click(hand.page.get_by_role("link", name="Compare", exact=True))
    await hand.sees("Compared with")
    await hand.sees(re.compile("(longer|shorter)"))


async def where_is_it(hand: Hand) -> None:
    await hand.search("forecast", "demand_forecast")
    await expect(hand.page.get_by_role("heading", name="demand_forecast")).to_be_visible()


async def what_depends_on_the_asset(hand: Hand) -> None:
    await hand.search("orders", "asset")
    consumers = hand.page.locator("dt", has_text="Consumed by").locator("+ dd")
    await hand.sees("demand_forecast", consumers)
    await hand.sees("refund_report", consumers)


async def follow_a_live_log(hand: HandOnStage) -> None:
    await hand.click(hand.page.get_by_role("link", name=re.compile("tasks? running")))
    await hand.click(hand.page.get_by_role("link", name=re.compile(r"copy\[2\]")))
    log = hand.page.get_by_role("region", name="Log")
    await hand.sees("copying products", log)
    line = f"row {time.monotonic_ns()}"
    hand.stage.say(line)
    await hand.sees(line, log)


JOBS: Final[Sequence[tuple[str, Callable[[HandOnStage], Awaitable[None]]]]] = (
    ("why last night's run failed, rerun only that", rerun_what_failed),
    ("which DAG fills the pool", what_fills_the_pool),
    ("what runs now", what_runs_now),
    ("what is late", what_is_late),
    ("failures of a team today", failures_of_a_team),
    ("is this DAG getting slower", is_it_getting_slower),
    ("compare with yesterday's run", compared_with_yesterday),
    ("where is a DAG", where_is_it),
    ("which DAGs depend on this asset", what_depends_on_the_asset),
    ("follow a mapped instance's live log", follow_a_live_log),
)


# ---- doing and measuring them ----


@dataclass(frozen=True)
class Done:
    """What a job took."""

    clicks: int
    requests: int
    server_ms: float
    all_ms: float  # from the first click until everything was seen


async def do_job(job: Callable[[HandOnStage], Awaitable[None]], page: Page, made: JobStage) -> Done:
    """One job from a Home that has been read; what it ran again has ended afterwards."""
    await page.goto(made.url)
    await expect(page.get_by_label("Now")).to_be_visible()
    await expect(page.locator(".skeleton")).to_have_count(0)
    hand = HandOnStage(page, made)
    began = time.perf_counter()
    await job(hand)
    took = (time.perf_counter() - began) * 1000
    done = Done(hand.clicks, hand.requests, hand.server_ms, took)
    if job is rerun_what_failed:
        await made.reached(f"runs?dag_id={NIGHTLY}", "failed")
    return done


async def measured_jobs(size: int, _: float) -> Finding:
    """Each job `_ROUNDS` times at both widths, with `size` task instances; medians."""
    from tests.browser.conftest import CHROMIUM

    figures: list[Figure] = []
    async with stage() as at, job_stage(at, size) as made, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for width in WIDTHS:
            for question, job in JOBS:
                figures += await _of_rounds(browser, made, width, question, job)
        await browser.close()
    about = f"{len(JOBS)} questions from Home, 1,000 DAGs, {size:,} task instances, medians of {_ROUNDS}"
    return Finding("jobs-1m", about, measure.machine(), figures)


async def _of_rounds(
    browser: Browser, made: JobStage, width: int, question: str, job: Callable[[HandOnStage], Awaitable[None]]
) -> list[Figure]:
    page = await browser.new_page(viewport={"width": width, "height": 900})
    rounds = [await do_job(job, page, made) for _ in range(_ROUNDS)]
    await page.close()
    name = f"{question}, {width} px"
    return [
        Figure(f"{name}: clicks", max(one.clicks for one in rounds), "", most=MOST_CLICKS),
        Figure(f"{name}: time", median(one.all_ms for one in rounds), "ms", most=_MOST_MS),
        Figure(f"{name}: of it the server", median(one.server_ms for one in rounds), "ms"),
    ]
