"""Found from outside: a peer that stands still (SIGSTOP, a hanging disk) keeps all of serve from stopping."""

import asyncio
from typing import Any, cast

import pytest

from aiosched.cli.serve.peers import PeerScheduler, Together
from aiosched.config import Settings


class Ours:
    async def announce_drain(self) -> None: ...
    async def drain(self, grace: float) -> bool:
        return True


async def test_a_peer_that_does_not_answer_holds_nobody_up_beyond_the_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = PeerScheduler(Settings(), "postgresql://x", "vm-2", cast("Any", None))
    monkeypatch.setattr(peer, "_tell", lambda message: True)  # it gets our messages, and stands still
    async with asyncio.timeout(20):
        await Together(cast("Any", Ours()), [peer]).drain(0.5)
