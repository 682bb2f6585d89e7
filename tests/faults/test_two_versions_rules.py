"""What the campaign of two versions counts as wrong."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.faults.two_versions import Version, twice
from tests.faults.two_versions_fleet import Visitor
from tests.ports import free_port


def test_a_try_that_has_begun_under_two_schedulers_is_found(tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "chain0").write_text(
        "old r1 plain -1 1\nnew r1 plain -1 1\nnew r1 plain -1 2\nnew r2 plain -1 1\n"
    )

    assert twice(tmp_path) == ["chain0 r1 plain -1 1: 2 times"]


@contextlib.asynccontextmanager
async def answering(status: str, port: int) -> AsyncIterator[None]:
    """A server that gives one answer to everything."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", port):
        yield


@pytest.mark.parametrize(("status", "failures"), [("200 OK", 0), ("409 Conflict", 0), ("500 Oops", 1), ("503 Oops", 1)])
async def test_an_answer_from_500_on_is_a_failure(tmp_path: Path, status: str, failures: int) -> None:
    visitor = Visitor(Version("web", tmp_path, tmp_path, "", port=free_port()))
    assert visitor.web.port is not None

    async with answering(status, visitor.web.port):
        await visitor.trigger("chain0", "r1")

    assert (len(visitor.failures), visitor.unanswered) == (failures, 0)


async def test_a_server_that_is_gone_gives_no_answer(tmp_path: Path) -> None:
    visitor = Visitor(Version("web", tmp_path, tmp_path, "", port=free_port()))

    await visitor.trigger("chain0", "r1")

    assert (visitor.failures, visitor.unanswered) == ([], 1)
