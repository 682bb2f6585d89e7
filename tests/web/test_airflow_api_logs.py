"""Logs in Airflow's API: whole or in parts, made as they are sent."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest

from aiosched.config import Settings, WebSettings
from aiosched.core.graph.spec import TaskSpec
from aiosched.db.server.engine import Database
from aiosched.remote.log_files import log_folder
from aiosched.remote.logs import LogView
from aiosched.web.airflow_api import tasks
from aiosched.web.app import make_app
from aiosched.web.requests.request_client import RequestClient
from tests.cli.records import NOON, add_dag, add_run, add_task

ADDRESS = "http://localhost/api/v2/dags/d/dagRuns/r/taskInstances/t/logs/1"


@pytest.fixture
async def http(db: Database, tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    settings = Settings(web=WebSettings(airflow_api=True))
    settings.core.home = tmp_path
    version = await add_dag(db, "d", tasks=(TaskSpec(task_id="t", operator="o"),))
    await add_task(db, await add_run(db, "d", version, "r"), 0, "success", try_number=1, start_date=NOON)
    transport = httpx2.ASGITransport(app=make_app(RequestClient(db, settings)))
    async with httpx2.AsyncClient(transport=transport) as client:
        yield client


def write(home: Path, text: bytes) -> None:
    folder = log_folder(home / "logs", dag_id="d", run_id="r", task_id="t")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "attempt=1.log").write_bytes(text)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"one",
        b"one\n",
        b"one\ntwo",
        b"\n\none\r\n\n",
        b'"quoted" \\ \x00\x1b[0m\xff\n',
        "ä€\u2028x\n".encode() * 40_000,
    ],
)
async def test_a_whole_log_has_all_lines(http: httpx2.AsyncClient, tmp_path: Path, text: bytes) -> None:
    write(tmp_path, text)

    answer = (await http.get(ADDRESS, params={"full_content": True})).json()

    assert [line["event"] for line in answer["content"]] == text.decode("utf-8", "replace").splitlines()
    assert answer["continuation_token"] is None


async def test_parts_continue_where_the_last_one_ended(http: httpx2.AsyncClient, tmp_path: Path) -> None:
    lines = [f"line {number:08}" for number in range(200_000)]
    write(tmp_path, "\n".join(lines).encode())
    found, token, parts = "", None, 0
    while token is not None or not parts:
        answer = (await http.get(ADDRESS, params={} if token is None else {"token": token})).json()
        found += "\n".join(line["event"] for line in answer["content"]) + "\n"
        token, parts = answer["continuation_token"], parts + 1

    assert parts == 3
    assert found.replace("\n", "") == "".join(lines)


@pytest.mark.parametrize(  # sizes whose documents are larger than any piece may be
    ("pattern", "size"), [(b"\n", 2**20), (b"x", 2**24), (b"line\n", 2**21), (b"\x00", 2**21)]
)
async def test_no_piece_is_large_whatever_the_log_holds(pattern: bytes, size: int) -> None:
    class Repeated:
        def __init__(self) -> None:
            self.size = size

        def read(self, start: int, limit: int) -> bytes:
            return (pattern * (limit // len(pattern) + 2))[start % len(pattern) :][:limit]

    longest, document = 0, bytearray()
    async for piece in tasks._document(cast("LogView", Repeated()), 0, size):
        longest = max(longest, len(piece))
        document += piece

    assert longest < 8 * 2**20 < len(document)
    events: list[Any] = [line["event"] for line in json.loads(document)["content"]]
    text = (pattern * (size // len(pattern) + 1))[:size].decode()
    assert "".join(events) == text.replace("\n", "")
