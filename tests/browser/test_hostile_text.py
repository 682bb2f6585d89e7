"""Text of authors, users and tasks that tries to be markup, on every page: it is shown, and nothing of it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio
from cryptography.fernet import Fernet
from playwright.async_api import Browser

from aiosched import DAG, Asset, Param, TaskGroup, task
from aiosched.config import Settings
from aiosched.scheduler import Scheduler
from aiosched.web.app import make_app
from aiosched.web.requests.request_client import RequestClient
from tests.browser.conftest import Tab, serving

pytestmark = pytest.mark.asyncio(loop_scope="session")

MARKUP = (
    "<img src=x onerror='window.ran=1'><script>window.ran=1</script>"
    '"><svg/onload=window.ran=1> [a](javascript:window.ran=1) `x` {{ 7*7 }} '
    "\x1b[31mred\x1b]8;;javascript:window.ran=1\x07l"
)
LINE = MARKUP.replace("\x1b", "").replace("\x07", "")  # where control characters are refused
PAGES = (
    "/", "/dags", "/dags/hostile", "/dags/hostile?run=one&task=outer.speak", "/dags/hostile?tab=graph&run=one",
    "/dags/hostile?tab=time", "/dags/hostile?tab=calendar", "/dags/hostile?tab=runs", "/dags/hostile?tab=code",
    "/dags/hostile?tab=details", "/dags/hostile/runs/one", "/dags/hostile/runs/one?tab=time",
    "/dags/hostile/runs/one/tasks/outer.speak", "/dags/hostile/runs/one/tasks/outer.speak?tab=xcom",
    "/dags/hostile/runs/one/tasks/outer.speak?tab=rendered", "/dags/hostile/runs/one/tasks/outer.speak?tab=details",
    "/runs", "/task-instances",
    "/pools", "/pools?pool=hostile", "/schedulers", "/backfills", "/assets", "/assets?tab=lineage", "/audit",
    "/secrets", "/secrets?tab=connections", "/settings", "/users", "/import-errors",
    "/import-errors?tab=files", "/inputs",
)  # fmt: skip


def hostile() -> DAG:
    with DAG(
        "hostile",
        schedule=None,
        description=LINE,
        dag_display_name=LINE,
        doc_md=MARKUP,
        tags=[LINE[:80]],
        params={"text": Param(LINE, type="string", title=LINE, description=LINE)},
        default_args={"owner": LINE[:60]},
    ) as dag:

        @task(
            task_display_name=LINE,
            doc_md=MARKUP,
            outlets=[Asset("hostile asset", uri="file://hostile/<script>window.ran=1</script>")],
        )
        async def speak() -> dict[str, str]:
            print(MARKUP)
            return {LINE: MARKUP}

        @task(trigger_rule="all_done")
        async def fail() -> None:
            raise RuntimeError(MARKUP)

        with TaskGroup("outer", tooltip=LINE, group_display_name=LINE):
            speak() >> fail()  # type: ignore[operator]
    return dag


@pytest_asyncio.fixture(loop_scope="session")
async def url(dsn: str, tmp_path: Path) -> AsyncIterator[str]:
    """A web server on a database that is full of markup."""
    key = {"fernet_keys": Fernet.generate_key().decode()}
    settings = Settings.model_validate({"core": {"home": tmp_path}, "secrets": key})
    async with Scheduler(dsn=dsn, dags=[hostile()], settings=settings, executor="inline") as scheduler:
        run = await scheduler.trigger("hostile", run_id="one", conf={"text": LINE, LINE: [LINE]})
        await run.wait()
        app = make_app(RequestClient(scheduler.db, settings))
        async with serving(app) as found:
            async with httpx2.AsyncClient(base_url=f"{found}/api/v1/") as client:
                for method, path, body in (
                    ("PUT", "dags/hostile/runs/one/note", {"note": LINE}),
                    ("PUT", "pools/hostile", {"slots": 1, "description": LINE}),
                    ("PUT", "variables/hostile", {"value": LINE, "description": LINE}),
                    ("PUT", "connections/hostile", {"conn_type": "http", "description": LINE, "host": "x"}),
                    ("POST", "users", {"name": "ann", "role": "viewer", "password": "a long password"}),
                    ("POST", "assets/hostile%20asset/events", {"extra": {"text": LINE}}),
                ):
                    answer = await client.request(method, path, json=body)
                    assert answer.is_success, f"{path}: {answer.text}"
            await scheduler.db.execute(
                "INSERT INTO dag_file (file, partition, error, traceback, code_frame, warnings) "
                "VALUES ($1, 0, $1, $1, $1, ARRAY[$1])",
                LINE,
            )
            yield found


async def test_no_page_runs_what_people_and_tasks_have_written(browser: Browser, url: str) -> None:
    context = await browser.new_context()
    tab = Tab(await context.new_page(), url)
    for path in PAGES:
        page = await tab.open(path)
        await page.wait_for_load_state("networkidle")
        await asyncio.sleep(0)
        assert await page.evaluate("window.ran") is None, path
        markup = "img[src=x], script:not([src]):not([type]), svg[onload], a[href^='javascript']"
        assert await page.locator(markup).count() == 0, path
    await context.close()
    assert not [one for one in tab.wrong if "404" not in one and "409" not in one]  # there is no file to render


@pytest.mark.parametrize("path", ["/dags/hostile/runs/one", "/dags/hostile?tab=details"])
async def test_it_is_shown_as_text(browser: Browser, url: str, path: str) -> None:
    context = await browser.new_context()
    tab = Tab(await context.new_page(), url)
    page = await tab.open(path)
    await page.get_by_text("<script>window.ran=1</script>").first.wait_for()
    await context.close()
