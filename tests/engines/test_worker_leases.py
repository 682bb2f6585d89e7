"""A worker begins nothing on a lease that may be over: others run it then."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import httpx2
import msgspec

from aiosched.core.values.messages import Attempt, AttemptKey, RunInfo
from aiosched.core.values.worker_messages import Job, StartAnswer, StartAnswers, StartClaims
from aiosched.executors.engines import agent as agents
from aiosched.executors.engines import worker_connection
from aiosched.executors.engines.agent import WorkerAgent
from aiosched.executors.engines.api_client import ApiClient
from aiosched.executors.engines.worker_connection import WorkerConnection
from aiosched.executors.local.options import LocalOptions

LEASE = 30.0
URLS = ("http://server.example",)


class Api:
    """A worker API that grants every start; `meanwhile(number)` happens before the answer to that request."""

    def __init__(self, answer: StartAnswer, meanwhile: Callable[[int], None]) -> None:
        self._answer, self._meanwhile = answer, meanwhile
        self.claims: list[list[str]] = []

    @property
    def transport(self) -> httpx2.MockTransport:
        return httpx2.MockTransport(self._reply)

    def _reply(self, request: httpx2.Request) -> httpx2.Response:
        claims = msgspec.msgpack.decode(request.content, type=StartClaims)
        self.claims.append(claims.tokens)
        self._meanwhile(len(self.claims))
        answers = StartAnswers(answers=[self._answer] * len(claims.tokens), lease=LEASE)
        return httpx2.Response(200, content=msgspec.msgpack.encode(answers))


class Time(SimpleNamespace):
    """Stands in for the module `time`."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


async def test_a_start_whose_answer_took_long_is_claimed_again() -> None:
    clock = Time()

    def slow(number: int) -> None:
        clock.now += LEASE if number == 1 else 1.0

    api = Api(StartAnswer(refusal="no"), slow)
    with mock.patch.object(worker_connection, "time", clock):
        client = ApiClient(URLS, transport=api.transport)
        begin = await WorkerConnection(client, "w", lambda: True).claim("token")
        await client.close()

    assert api.claims == [["token"], ["token"]]
    assert begin.asked == 1000.0 + LEASE  # before the second question


async def test_an_attempt_whose_lease_ended_while_the_worker_stood_still_is_not_begun(tmp_path: Path) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    run = RunInfo(key=1, dag_id="d", run_id="r", run_type="manual", run_after=now)
    attempt = Attempt(key=AttemptKey(1, 0, -1, 1), run=run, task_id="t", is_async=True, max_tries=0)
    api = Api(StartAnswer(attempt=attempt), lambda number: None)
    agent = WorkerAgent(LocalOptions(dags_folder=tmp_path, slots=1), transport=api.transport)
    await agent.start()
    submitted: list[Any] = []
    agent._executor.submit = submitted.extend  # type: ignore[method-assign, assignment]

    class Later:
        """The clock of the worker, after it stood still."""

        def monotonic(self) -> float:
            return time.monotonic() + LEASE

    with mock.patch.object(agents, "time", Later()):
        outcome = await agent.run(Job(id=1, token="t", urls=URLS, is_async=True))
    await agent.stop(0.0)

    assert (outcome, submitted) == (None, [])


async def test_a_worker_asks_the_servers_of_its_own_setting(tmp_path: Path) -> None:
    """Who can write to a broker must not have workers claim attempts at a server of his own."""
    api, asked = Api(StartAnswer(refusal="no"), lambda number: None), list[str]()

    def note(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.host)
        return api._reply(request)

    for own, host in (((), "theirs.example"), (("http://ours.example",), "ours.example")):
        options = LocalOptions(dags_folder=tmp_path, slots=1, worker_api=own)
        agent = WorkerAgent(options, transport=httpx2.MockTransport(note))
        await agent.start()
        await agent.run(Job(id=1, token="t", urls=("http://theirs.example",), is_async=True))
        await agent.stop(0.0)
        assert {*asked} == {host}
        asked.clear()
