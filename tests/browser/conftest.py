"""Chromium and the real service for the tests of pages: one of each for the session, on a database of its own.

A page of a test fails it when the browser's console has an error, or when it asks another host for anything.
Pictures go into the folder that the variable AIOSCHED_SCREENSHOTS names.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import asyncpg
import httpx2
import pytest
import pytest_asyncio
import uvicorn
from fastapi import FastAPI
from playwright.async_api import Browser, ConsoleMessage, Page, Request, async_playwright, expect

from aiosched.db.crypto.keyring import new_key
from tests.databases import TEMPLATE, Server
from tests.patience import PATIENCE

HERE: Final = Path(__file__).parent
CHROMIUM: Final = (
    os.environ.get("AIOSCHED_CHROMIUM")
    or shutil.which("chromium-headless-shell")  # takes half the processor time
    or shutil.which("chromium")
    or "/usr/bin/chromium"
)
SCREENSHOTS: Final = os.environ.get("AIOSCHED_SCREENSHOTS")
AXE: Final = HERE / "vendor" / "axe.min.js"
LOOKS: Final = (("light", 1440), ("dark", 1440), ("dark", 1920), ("light", 1920), ("light", 390), ("dark", 390))
NARROW_DESK: Final = 1280  # px: a laptop, where only the width is looked at
# What sticks out on the right, but for what scrolls in a box of its own; two frames later: charts follow their boxes.
_SIDEWAYS: Final = """async () => {
    for (const _ of "12") await new Promise(requestAnimationFrame);
    return [...document.querySelectorAll("body *")]
        .filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
        .filter((one) => !one.closest(".scroll *, .gridbox *, .pane *, .tabs *, pre *, .hidden-text, .side"))
        .map((one) => `${one.tagName} ${one.className}`).slice(0, 5).join("; ");
}"""
_READY: Final = re.compile(r"http://127\.0\.0\.1:\d+")
_CHECK_ACCESS: Final = """async () => {
    const {violations} = await axe.run(document, {resultTypes: ["violations"]});
    const words = (node) => `    ${node.html}\\n    ${node.failureSummary}`;
    return violations
        .filter((one) => ["serious", "critical"].includes(one.impact))
        .map((one) => [`${one.id}: ${one.help}`, ...one.nodes.slice(0, 5).map(words)].join("\\n"));
}"""
_MEASURED: Final = """(name) => new Promise((done) => new PerformanceObserver((list) => {
    const found = list.getEntriesByName(name).at(-1);
    if (found) done(JSON.stringify({duration: found.duration, detail: found.detail}));
}).observe({type: "measure", buffered: true}))"""


expect.set_options(timeout=PATIENCE * 1000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not Path(CHROMIUM).exists():
        reason = f"pages are not tested: there is no browser at {CHROMIUM} (AIOSCHED_CHROMIUM names another)"
        for item in items:
            if HERE in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=reason))


ALERTS = {  # the port is closed: nothing arrives
    "AIOSCHED__ALERTS__INTERVAL": "0.2",
    "AIOSCHED__ALERTS__NOTIFIERS": '[{"name": "ops", "kind": "webhook", "endpoint": "http://127.0.0.1:9/secret-hook"}]',
}


@dataclass(frozen=True, slots=True)
class Service:
    """A running `aiosched serve` of everything."""

    url: str
    dsn: str
    dags: Path

    async def api(self, method: str, path: str, **options: Any) -> Any:
        """Ask the REST API; the JSON of its answer."""
        async with httpx2.AsyncClient(base_url=f"{self.url}/api/v1/", timeout=PATIENCE) as client:
            answer = await client.request(method, path, **options)
            assert answer.is_success, answer.text
            return answer.json() if answer.content else None

    async def parsed(self) -> None:
        """Wait until every file of the folder is parsed: a busy machine is ready before that."""
        files = {file.name for file in (HERE / "dags").glob("*.py")}
        async with asyncio.timeout(PATIENCE):
            while not files <= {dag["file"] for dag in (await self.api("GET", "dags"))["items"]}:  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    async def execute(self, statement: str) -> None:
        """Change the database behind the service's back."""
        conn = await asyncpg.connect(self.dsn)
        try:
            await conn.execute(statement)
        finally:
            await conn.close()

    async def run(
        self, dag_id: str, state: str, run_id: str, conf: dict[str, Any] | None = None, date: str | None = None
    ) -> None:
        """Trigger a run, of a logical date where there is one, and wait until it is in `state`."""
        wish = {"run_id": run_id, "conf": conf or {}, "logical_date": date}
        await self.api("POST", f"dags/{dag_id}/runs", json=wish)
        await self.until(dag_id, run_id, state)

    async def until(self, dag_id: str, run_id: str, state: str) -> None:
        """Wait until a run is in `state`."""
        async with asyncio.timeout(PATIENCE):
            while (await self.api("GET", f"dags/{dag_id}/runs/{run_id}"))["state"] != state:  # noqa: ASYNC110
                await asyncio.sleep(0.1)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def service(server: Server, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """The real service on the DAG files of `tests/browser/dags`."""
    dsn = await server.create(TEMPLATE)
    home = tmp_path_factory.mktemp("browser")
    dags = home / "dags"
    shutil.copytree(HERE / "dags", dags)
    options = ["--dsn", dsn, "--dags", str(dags), "--home", str(home), "--executor", "inline", "--port", "0"]
    with (home / "errors.log").open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "aiosched", "serve", *options),
            cwd=home,
            env=os.environ
            | {"AIOSCHED__SECRETS__FERNET_KEYS": new_key(), "AIOSCHED__WEB__LOOPBACK_LOGIN": "none"}
            | {"AIOSCHED__WEB__INSTANCE_NAME": "PROD", "AIOSCHED__WEB__INSTANCE_COLOR": "red"}
            | ALERTS,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
        )
    assert process.stdout is not None
    reading: asyncio.Task[bytes] | None = None
    try:
        url = await told_url(process.stdout, home / "errors.log")
        reading = asyncio.create_task(process.stdout.read())
        found = Service(url, dsn, dags)
        await found.parsed()
        await _fill(dsn)
        yield found
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
        if reading is not None:
            await reading
        await server.drop(dsn)


async def told_url(output: asyncio.StreamReader, errors: Path, *, has_url: bool = True) -> str:
    """The address that the service tells, once it is ready; "" for one without a web server."""
    told = ""
    async with asyncio.timeout(PATIENCE):
        while line := (await output.readline()).decode():
            told += line
            if line.startswith("ready"):
                break
    found = _READY.search(told)
    if found is None and not has_url and "ready" in told:
        return ""
    if found is None:
        pytest.fail(f"{told}\n{await asyncio.to_thread(errors.read_text)}")
    return found.group()


# A history as large as the views have to bear: so many runs, all tasks of each with a state.
_RUNS: Final = """
    INSERT INTO dag_run (dag_id, run_id, partition, version_id, run_type, triggered_by, state,
                         logical_date, run_after, queued_at, start_date, end_date)
    SELECT dag_id, 'day-' || to_char(n, 'FM000'), partition, version_id, 'manual', 'test',
           CASE WHEN n % 9 = 0 THEN 'failed' ELSE 'success' END, day, day, day, day, day + n * interval '1 s'
      FROM dag, generate_series(1, $2) AS n, LATERAL (SELECT now() - ($2 - n + 1) * interval '1 day' AS day) AS d
     WHERE dag_id = $1
"""
_TASKS: Final = """
    INSERT INTO task_instance (run_id, task_index, map_index, state, try_number, scheduled_at, queued_at,
                               start_date, end_date)
    SELECT run.id, i, -1, CASE WHEN run.state = 'success' OR i < 40 THEN 'success' WHEN i = 40 THEN 'failed'
                               ELSE 'upstream_failed' END, 1, start_date, start_date + i * interval '1 s',
           start_date + i * interval '1.2 s', start_date + i * interval '1.2 s' + interval '4 s'
      FROM dag_run AS run, generate_series(0, $2 - 1) AS i WHERE run.dag_id = $1
"""


async def _fill(dsn: str) -> None:
    conn = await asyncpg.connect(dsn)
    try:
        for dag_id, runs, tasks in (("wide", 100, 90), ("vast", 2, 1000)):
            await conn.execute(_RUNS, dag_id, runs)
            await conn.execute(_TASKS, dag_id, tasks)
    finally:
        await conn.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Chromium."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=HERE / "chromium.py",
            env=os.environ | {"AIOSCHED_CHROMIUM": CHROMIUM},  # type: ignore[arg-type]
            args=["--no-sandbox"],
        )
        browser.on("context", lambda context: context.set_default_timeout(PATIENCE * 1000))  # whoever opens a page
        yield browser
        await browser.close()


@contextlib.asynccontextmanager
async def serving(app: FastAPI) -> AsyncIterator[str]:
    """The address of an application that is served meanwhile."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on", timeout_graceful_shutdown=1))
        task = asyncio.create_task(server._serve([sock]))
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
        server.should_exit = True
        await task


class Tab:
    """A page of the browser on the service, with the checks that every page has to pass."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url
        self.wrong: list[str] = []
        self.expected: list[str] = []  # parts of complaints that belong to the test
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("request", self._see)

    async def open(self, path: str, theme: str = "light", width: int = 1360) -> Page:
        """Go to an address of the UI."""
        await self.page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        await self.page.set_viewport_size({"width": width, "height": 900})
        await self.page.goto(self.url + path)
        return self.page

    async def check_access(self) -> None:
        """What axe-core calls serious or critical fails the test."""
        if not await self.page.evaluate("typeof axe === 'object'"):
            await self.page.evaluate(AXE.read_text(encoding="utf-8") + "; null")
        found: list[str] = await self.page.evaluate(_CHECK_ACCESS)
        assert not found, "\n".join(found)

    async def fits(self, *where: object) -> None:
        """Nothing sticks out on the right, once everything is there: what still loads may be the widest."""
        await expect(self.page.get_by_role("heading", level=1)).to_be_visible()
        await expect(self.page.locator(".skeleton")).to_have_count(0)
        assert await self.page.evaluate(_SIDEWAYS) == "", where

    async def looks_well(self, name: str) -> None:
        """In both themes and at each width nothing sticks out, and axe has nothing to say; a picture of each."""
        page = self.page
        await page.set_viewport_size({"width": NARROW_DESK, "height": 900})
        await self.fits(name, NARROW_DESK)
        for theme, width in LOOKS:
            await page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
            await page.set_viewport_size({"width": width, "height": 900})
            await self.fits(name, theme, width)
            await self.check_access()
            await self.picture(f"{name}-{theme}-{width}")
        await page.set_viewport_size({"width": 1440, "height": 900})

    async def filter(self, field: str, value: str, *, leave_out: bool = False) -> None:
        """Choose a value of a filter of a list, or leave it out."""
        await self.page.get_by_role("button", name="Add a filter").click()
        box = self.page.get_by_role("group", name="Add a filter")
        await box.get_by_role("button", name=f"{field} …", exact=True).click()
        name = f"{field} is not {value}" if leave_out else re.compile(rf"^(✓ )?{re.escape(value)}( \(|$)")
        await box.get_by_role("button", name=name).click()
        await self.page.keyboard.press("Escape")

    async def two_keys(self, first: str, second: str) -> None:
        """Press a shortcut of two keys: both are under way at once, so the browser has the second one in time."""
        await asyncio.gather(self.page.keyboard.press(first), self.page.keyboard.press(second))

    async def picture(self, name: str) -> None:
        """A screenshot, where somebody wants them."""
        if SCREENSHOTS:
            await self.page.screenshot(path=Path(SCREENSHOTS) / f"{name}.png")

    async def measured(self, name: str) -> dict[str, Any]:
        """What the page itself measured under a name, as soon as it has: `duration` in ms, `detail`."""
        return dict(json.loads(await self.page.evaluate(_MEASURED, name)))

    async def processor_times(self) -> Callable[[], Awaitable[float]]:
        """What tells the ms of the processor that the main thread of the page has used since; whatever else runs."""
        devtools = await self.page.context.new_cdp_session(self.page)
        await devtools.send("Performance.enable")

        async def used() -> float:
            told = await devtools.send("Performance.getMetrics")
            return next(1000 * metric["value"] for metric in told["metrics"] if metric["name"] == "ThreadTime")

        return used

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.wrong.append(f"console: {message.text}")

    def _see(self, request: Request) -> None:
        if urlsplit(request.url).scheme in ("http", "https", "ws", "wss") and not request.url.startswith(self.url):
            self.wrong.append(f"request to another host: {request.url}")


async def finished(url: str, dag_id: str) -> str:
    """The id of the newest run of a DAG, once there is one and all have succeeded."""
    async with (
        asyncio.timeout(PATIENCE),
        httpx2.AsyncClient(base_url=f"{url}/api/v1/", timeout=PATIENCE, trust_env=False) as client,
    ):
        while True:
            runs = (await client.get("runs", params={"dag_id": dag_id})).json()["items"]
            if runs and all(run["state"] == "success" for run in runs):
                return str(runs[0]["run_id"])
            await asyncio.sleep(0.1)


@pytest_asyncio.fixture(loop_scope="session")
async def tab(service: Service, browser: Browser) -> AsyncIterator[Tab]:
    """A new, empty page; the test fails when the page complained about anything."""
    context = await browser.new_context()
    tab = Tab(await context.new_page(), service.url)
    yield tab
    await tab.page.unroute_all(behavior="wait")  # else an answer that a test still reads is gone
    await context.close()
    wrong = [one for one in tab.wrong if not any(part in one for part in tab.expected)]
    assert not wrong, "\n".join(wrong)
