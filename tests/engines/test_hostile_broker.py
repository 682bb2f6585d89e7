"""A task of one team that has the broker's address and password, and what lies there for another team.

The author may hold messages up: whoever may write to a broker can empty it. It reads nothing in them, claims nothing
with them, and lets no worker begin what it has written itself.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

pytest.importorskip("celery", reason="Celery is not installed: pip install 'celery[redis]'")

from kombu import Queue

from aiosched.config import Settings
from aiosched.core.values.worker_messages import MEDIA_TYPE, Job, StartAnswers, StartClaims
from aiosched.db.crypto.keyring import new_key
from aiosched.db.people import teams
from aiosched.executors.celery.application import CANCEL, LOOK, NAMESPACE, RUN_JOBS, make_app
from aiosched.executors.celery.broker import answers_of_workers
from aiosched.executors.celery.celery_engine import CeleryEngine
from aiosched.executors.celery.sealing import Seals
from aiosched.scheduler import Scheduler
from tests.engines.brokers import RealBroker, on_broker, use
from tests.engines.celery_workers import CeleryWorkers
from tests.engines.test_engine_attempts import TRIES, rows, serving, until
from tests.patience import PATIENCE

DAG = """
from aiosched import DAG, task

with DAG("{team}_orders", schedule=None):
    @task
    def pay():
        with open({calls!r}, "a") as file:
            file.write("{team}\\n")
    pay()
"""


class AheadEngine(CeleryEngine):
    """Sends an attempt before a worker has answered."""

    slots = async_slots = 4  # type: ignore[assignment]


class Author:
    """What an author of team red can do with the broker. Each call is a connection of its own."""

    def __init__(self, broker: RealBroker, settings: Settings) -> None:
        self.broker, self.settings = broker, settings
        self.theirs = f"blue.{settings.celery.default_queue}"
        self.ours = f"red.{settings.celery.default_queue}"

    def take(self, queue: str) -> list[Any]:
        """Read and remove the messages of a queue; none if there is no queue yet."""
        with self.broker.connection() as connection:
            try:
                with connection.channel() as channel:
                    bound = Queue(queue, exchange="")(channel)
                    return list(iter(lambda: bound.get(no_ack=True), None))
            except connection.channel_errors:
                return []

    def put(self, queue: str, body: str, headers: Any, **properties: Any) -> None:
        with self.broker.connection() as connection:
            producer = connection.Producer()
            producer.publish(body, exchange="", routing_key=queue, headers=headers, content_encoding="utf-8",
                             content_type="application/json", **properties)  # fmt: skip

    def put_again(self, queue: str, message: Any, text: str | None = None) -> None:
        """A message as it was, or with another text in it."""
        body = message.body if isinstance(message.body, str) else bytes(message.body).decode()
        if text is not None:
            args, *rest = json.loads(body)
            body = json.dumps([[text, *args[1:]], *rest])
        kept = ("correlation_id", "reply_to")
        self.put(queue, body, message.headers, **{name: message.properties.get(name) for name in kept})

    def text(self, message: Any) -> str:
        return str(message.payload[0][0])

    def forge(self, text: str) -> None:
        """A message of its own for the worker of the other team."""
        message = make_app(self.settings).amqp.create_task_message("forged", RUN_JOBS, (text, True), {})
        self.put(self.theirs, json.dumps(message.body), message.headers, correlation_id="forged")

    def everything(self) -> bytes:
        """All that can be read in the queue of the other team, whose messages are back afterwards."""
        taken = self.take(self.theirs)
        for message in taken:
            self.put_again(self.theirs, message)
        return b"\n".join(repr((m.headers, m.properties, m.payload)).encode() for m in taken)


@pytest.fixture(params=[on_broker("redis"), on_broker("rabbitmq")])
def author(request: pytest.FixtureRequest, settings: Settings, tmp_path: Path) -> Author:
    found: RealBroker = request.getfixturevalue(request.param)
    use(found, settings, queue=f"of {tmp_path.name}")
    settings.celery.team_keys = {"blue": new_key(), "red": new_key()}
    return Author(found, settings)


def of_worker(settings: Settings, team: str) -> Settings:
    """The settings of the machines of a team: its own key, and its own queue."""
    found = settings.model_copy(deep=True)
    found.celery.keys, found.celery.team_keys = (settings.celery.team_keys or {})[team], None
    found.celery.default_queue = f"{team}.{settings.celery.default_queue}"
    return found


@pytest.fixture
def workers(settings: Settings, author: Author, worker_api: str, tmp_path: Path) -> Iterator[CeleryWorkers]:
    """Those of the team blue; none is started."""
    found = CeleryWorkers(of_worker(settings, "blue"), tmp_path)
    yield found
    found.close()


@pytest.fixture
async def scheduler(settings: Settings, author: Author, worker_api: str, tmp_path: Path) -> AsyncIterator[Scheduler]:
    """It has sent an attempt of the team blue, which waits in the broker."""
    for team in ("blue", "red"):
        folder = settings.core.dags_folder / team
        folder.mkdir()
        folder.joinpath("dag.py").write_text(DAG.format(team=team, calls=str(tmp_path / "calls")))
    async with serving(settings, AheadEngine(settings)) as found:
        for team in ("blue", "red"):
            await teams.create_team(found.db, team)
            await teams.add_folder(found.db, team, team)
        await found.read_folder()
        await found.trigger("blue_orders", run_id="r")
        yield found


async def its_message(author: Author) -> Any:
    """The message of the attempt, taken out of the broker."""
    taken: list[Any] = []
    async with asyncio.timeout(PATIENCE):
        while not (taken := await asyncio.to_thread(author.take, author.theirs)):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return taken[0]


async def claim(address: str, token: str) -> httpx2.Response:
    claims = StartClaims(worker="of red", hostname="here", pid=1, tokens=[token[:500]])
    headers = {"Authorization": f"Bearer {token[:500]}", "Content-Type": MEDIA_TYPE}
    async with httpx2.AsyncClient() as client:
        return await client.post(f"{address}/worker/v1/starts", content=msgspec.msgpack.encode(claims), headers=headers)


async def test_what_is_in_the_broker_claims_no_attempt_and_tells_nothing(
    scheduler: Scheduler, author: Author, worker_api: str, settings: Settings
) -> None:
    message = await its_message(author)
    await asyncio.to_thread(author.put_again, author.theirs, message)
    seen = await asyncio.to_thread(author.everything)

    assert not [word for word in (b"blue_orders", b"pay", worker_api.encode()) if word in seen]
    words = {word for word in re.findall(r"[\w.~=-]{8,}", seen.decode()) if word.isascii()}
    assert author.text(message)[:400] in " ".join(words)
    for word in (*words, author.text(message)):
        assert (await claim(worker_api, word)).status_code == 401, word
    assert Seals(of_worker(settings, "red")).open(author.text(message)) is None
    assert await rows(scheduler, "SELECT worker FROM engine_attempt") == [(None,)]


async def test_a_token_would_do(scheduler: Scheduler, author: Author, worker_api: str) -> None:
    """What the attack needs: this is what lay in the broker."""
    message = await its_message(author)
    sealed = Seals(author.settings).open(author.text(message))
    assert sealed is not None
    answered = await claim(worker_api, sealed.jobs[0].token)
    assert msgspec.msgpack.decode(answered.content, type=StartAnswers).answers[0].attempt is not None


async def test_forged_altered_moved_and_copied_messages_begin_nothing_else_and_end_no_worker(
    scheduler: Scheduler, author: Author, workers: CeleryWorkers, settings: Settings, tmp_path: Path
) -> None:
    message = await its_message(author)
    asked: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.read(1000))
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    elsewhere = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    job, text = Job(id=1, token="t", urls=(elsewhere,), team="blue"), author.text(message)

    def attack() -> None:
        author.forge(msgspec.json.encode([job]).decode())  # as it was done before
        author.forge(msgspec.json.encode({"jobs": [job], "held": True}).decode())
        author.forge(Seals(of_worker(settings, "red")).seal([job], held=True))
        for place in (1, 20, len(text) // 2, len(text) - 8):
            other = "A" if text[place] != "A" else "B"
            author.put_again(author.theirs, message, text[:place] + other + text[place + 1 :])
        author.put_again(author.theirs, message, "")
        author.put(author.theirs, "[[1], {}, {}]", {"task": "os.system", "id": "x"}, correlation_id="x")
        for _ in range(300):
            author.put_again(author.theirs, message, text[:-8] + "AAAAAAA=")
        for _ in range(3):
            author.put_again(author.theirs, message)  # three times
        author.put_again(author.ours, message)  # to its own workers

    await asyncio.to_thread(attack)
    workers.start("blue")
    await until((tmp_path / "calls").exists, "the attempt")
    async with asyncio.timeout(PATIENCE):
        while await rows(scheduler, TRIES) != [("success", 1, 0)]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    log = workers.log("blue")

    assert (tmp_path / "calls").read_text() == "blue\n"
    assert asked == []
    assert log.count("messages were dropped: they were not sealed with a key of this worker") == 1, log
    assert workers.processes["blue"].poll() is None
    server.close()


async def test_a_message_that_was_taken_away_is_sent_again(
    scheduler: Scheduler, author: Author, workers: CeleryWorkers, tmp_path: Path
) -> None:
    await its_message(author)
    workers.start("blue")
    async with asyncio.timeout(PATIENCE):
        while await rows(scheduler, TRIES) != [("success", 1, 0)]:
            await scheduler.executor.send_again()  # type: ignore[attr-defined]  # what a timer does
            await asyncio.sleep(0.2)
    assert (tmp_path / "calls").read_text() == "blue\n"


async def test_answers_and_commands_of_others_do_not_stop_a_scheduler(
    scheduler: Scheduler, author: Author, workers: CeleryWorkers, tmp_path: Path
) -> None:
    """The author answers in the name of workers, with what breaks whoever believes it."""

    def answer_for_a_while() -> int:
        from kombu import pidbox

        mailbox: Any = pidbox.Mailbox(NAMESPACE, type="fanout", accept=["json"], serializer="json")
        heard = 0
        with author.broker.connection() as connection:
            node = mailbox(connection).Node("false@here", state=None, channel=connection.channel())

            def look(state: Any, **_: Any) -> Any:
                nonlocal heard
                heard += 1
                return [{"jobs": None}, {"jobs": 1, "concurrency": "x", "queues": 7}, "x", None][heard % 4]

            node.handlers = {LOOK: look, CANCEL: lambda *_, **__: None}
            node.listen(callback=node.handle_message)
            while heard < 8:
                connection.drain_events(timeout=PATIENCE)
        return heard

    assert await asyncio.to_thread(answer_for_a_while) == 8
    workers.start("blue")
    async with asyncio.timeout(PATIENCE):
        while await rows(scheduler, TRIES) != [("success", 1, 0)]:
            await scheduler.executor.send_again()  # type: ignore[attr-defined]
            await asyncio.sleep(0.2)


def test_only_answers_that_a_worker_gives_count() -> None:
    right = {"concurrency": 2, "queues": ["default"], "jobs": [1]}
    wrong = (
        {"x": {"error": "unknown"}}, {"x": right | {"concurrency": -1}}, {"x": right | {"concurrency": 10**9}},
        {"x": right | {"jobs": ["1"]}}, {"x": right | {"queues": ["q"] * 1001}}, ["x"], None, 7, {"x": None},
    )  # fmt: skip

    assert list(answers_of_workers([*wrong, {"right": right}, *wrong])) == ["right"]
