"""A DAG whose file was fine once and has an import error now, as people and programs meet it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI

from aiosched.client import Client
from aiosched.config import Settings, WebSettings
from aiosched.errors import Refused
from aiosched.scheduler import Scheduler
from tests.cli.conftest import Cli
from tests.cli.serving import serve, wait_for
from tests.patience import PATIENCE

FINE = """
from aiosched import dag, task

@dag()
def sales():
    @task
    async def work(): ...
    work()

sales()
"""
BROKEN = FINE.replace("from aiosched", "from a_module_that_is_missing import x\nfrom aiosched")
SAID = (
    "The file of DAG 'sales' cannot be imported: sales.py:2: ModuleNotFoundError: No module named "
    "'a_module_that_is_missing'. Correct the file, then trigger the DAG again"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "dags").mkdir()
    file = tmp_path / "dags" / "sales.py"
    file.write_text(FINE)
    return file


def test_dags_trigger_and_why_name_the_import_error_and_its_file(tmp_path: Path, file: Path, dsn: str) -> None:
    with serve(tmp_path, dsn) as process:
        wait_for(process, "ready")
        file.write_text(BROKEN)
        wait_for_error(Cli(dsn))

        result = Cli(dsn)("dags", "trigger", "sales", code=4)
        told = Cli(dsn)("why", "sales").stdout

    assert SAID in result.stderr
    assert "any more" not in result.stderr + told
    assert "its file cannot be imported" in told


async def test_the_scheduler_and_the_api_name_them_too(file: Path, dsn: str) -> None:
    settings = Settings(web=WebSettings(auth="none"))
    async with Scheduler(dsn=dsn, dags_folder=file.parent, settings=settings) as scheduler:
        app = FastAPI()
        app.mount("/flows", scheduler.web_app())
        async with Client("http://host.example/flows", transport=httpx2.ASGITransport(app=app)) as client:
            await some(client.dags)
            await asyncio.to_thread(file.write_text, BROKEN)
            await some(client.import_errors)

            for trigger in (scheduler.trigger, client.trigger):
                with pytest.raises(Refused) as caught:
                    await trigger("sales")
                assert SAID in str(caught.value)


async def some(list_them: Callable[[], AsyncIterator[object]]) -> None:
    """Return when there is at least one."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if [one async for one in list_them()]:
                return
            await asyncio.sleep(0.01)


def wait_for_error(cli: Cli) -> None:
    deadline = time.monotonic() + 30
    while not cli.json("dags", "errors"):
        assert time.monotonic() < deadline, "the import error was not noticed"
