"""What a page has asked for survives network interfaces that come and go, as other tests make them."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import Browser

from tests.network_namespace import CAN_ISOLATE, CANNOT_ISOLATE, network_namespace

pytestmark = pytest.mark.skipif(not CAN_ISOLATE, reason=CANNOT_ISOLATE)

MORE_THAN_AT_ONCE = 12  # Chromium opens six connections to a host: the other requests wait, and were aborted
ASK = "(many) => Promise.all([...Array(many).keys()].map((n) => fetch(`/ask${n}`).then((answer) => answer.text())))"


class Asked:
    """A server that answers what is asked when it is told to, and everything else at once."""

    def __init__(self) -> None:
        self.busy, self.goes_on = asyncio.Event(), asyncio.Event()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:  # Chromium connects ahead of its requests
            writer.close()
            return
        if head.startswith(b"GET /ask"):
            self.busy.set()
            await self.goes_on.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\nConnection: close\r\n\r\nOK")
        await writer.drain()
        writer.close()


async def test_requests_of_a_page_survive_interfaces_that_come_and_go(browser: Browser) -> None:
    asked = Asked()
    page = await browser.new_page()
    async with await asyncio.start_server(asked.answer, "127.0.0.1", 0) as server:
        await page.goto(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        asking = asyncio.create_task(page.evaluate(ASK, MORE_THAN_AT_ONCE))
        await asked.busy.wait()

        for _ in range(3):
            with network_namespace():
                pass
        asked.goes_on.set()

        assert await asking == ["OK"] * MORE_THAN_AT_ONCE
        await page.close()
