"""The engine Celery, with real brokers, and real Celery workers that are processes of their own."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("celery", reason="Celery is not installed: pip install 'celery[redis]'")

from celery.backends.base import DisabledBackend
from kombu.exceptions import ContentDisallowed

from aiosched.config import Settings
from aiosched.core.values.worker_messages import Job
from aiosched.db.crypto.keyring import new_key
from aiosched.errors import ConfigError
from aiosched.executors.celery import broker as waiting
from aiosched.executors.celery.application import make_app
from aiosched.executors.celery.broker import Broker
from aiosched.executors.celery.celery_engine import CeleryEngine
from aiosched.executors.celery.sealing import Seals
from aiosched.executors.engines.engine import EngineUnavailable
from tests.engines.brokers import RealBroker, on_broker, use
from tests.engines.celery_workers import CeleryWorkers
from tests.engines.hundred_attempts import check_that_a_killed_scheduler_loses_none
from tests.engines.test_engine_attempts import LEFT, TRIES, calls, rows, serving, until
from tests.patience import PATIENCE

BROKERS = [on_broker("redis"), on_broker("rabbitmq")]

ALONE = """
import asyncio, fcntl, os, time
from pathlib import Path
from aiosched import DAG, task

HERE = Path({here!r})

def begin(name):
    lock = (HERE / f"{{name}}.lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while an earlier attempt lives
    with (HERE / "calls").open("a") as file:
        file.write(f"{{name}}\\n")
    return lock

with DAG("d", schedule=None, max_active_tasks=100):
    @task
    def plain():
        lock = begin("plain")
        while not (HERE / "go").exists():
            time.sleep(0.02)

    @task
    async def coroutine():
        lock = begin("coroutine")
        while not (HERE / "go").exists():
            await asyncio.sleep(0.02)

    plain(), coroutine()
"""

LOAD = """
import time
from pathlib import Path
from aiosched import DAG, task

with DAG("load", schedule=None, max_active_tasks=1000):
    @task
    def plain(number):
        with (Path({here!r}) / "calls").open("a") as file:
            file.write(f"{{number}}\\n")
        time.sleep(0.05)

    @task
    async def coroutine(number):
        with (Path({here!r}) / "calls").open("a") as file:
            file.write(f"{{100 + number}}\\n")

    plain.expand(number=list(range(40)))
    coroutine.expand(number=list(range(40)))
"""

QUEUES = """
from aiosched import DAG, task

with DAG("queues", schedule=None, max_active_tasks=1000):
    @task(queue="nobody's")
    def waits(number): pass

    @task(queue="gpu")
    def where():
        import os
        return os.environ.get("PLACE")

    waits.expand(number=list(range(30))) >> where()
    where.override(task_id="elsewhere")()
"""


@pytest.fixture(params=BROKERS)
def broker(request: pytest.FixtureRequest, settings: Settings, tmp_path: Path) -> RealBroker:
    """A broker, and a queue of the test's own."""
    found: RealBroker = request.getfixturevalue(request.param)
    use(found, settings, queue=f"of {tmp_path.name}")
    return found


@pytest.fixture
async def workers(
    settings: Settings, broker: RealBroker, worker_api: str, tmp_path: Path
) -> AsyncIterator[CeleryWorkers]:
    """One worker of two slots; tests start others."""
    found = CeleryWorkers(settings, tmp_path)
    found.start("first")
    yield found
    await asyncio.to_thread(found.close)


only_redis = pytest.mark.parametrize("broker", [on_broker("redis")], indirect=True)


async def test_a_scheduler_that_is_killed_loses_none_of_a_hundred_attempts(
    settings: Settings, workers: CeleryWorkers, dsn: str, tmp_path: Path
) -> None:
    workers.start("second")
    environment = {name: text for name, text in workers.environment("").items() if "CELERY" in name}
    await check_that_a_killed_scheduler_loses_none(settings, dsn, tmp_path, "celery", environment)


async def test_attempts_of_a_worker_that_was_killed_run_again_and_never_overlap(
    short_lease: None, settings: Settings, workers: CeleryWorkers, tmp_path: Path
) -> None:
    (settings.core.dags_folder / "d.py").write_text(ALONE.format(here=str(tmp_path)))
    async with serving(settings, CeleryEngine(settings)) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        await until(lambda: len(calls(tmp_path)) == 2, "both tasks")
        await asyncio.to_thread(workers.kill, "first")
        workers.start("second")
        await until(lambda: len(calls(tmp_path)) == 4, "both tasks again")
        (tmp_path / "go").touch()
        assert await run.wait(timeout=PATIENCE) == "success"
        assert await rows(scheduler, TRIES) == [("success", 2, 0)] * 2
        assert await rows(scheduler, LEFT) == [(0,)]


@pytest.mark.parametrize("fault", ["forget", "restart"])
async def test_what_a_broker_has_lost_under_load_is_sent_again_and_runs_once(
    settings: Settings, broker: RealBroker, workers: CeleryWorkers, tmp_path: Path, fault: str
) -> None:
    settings.core.parallelism = 200
    (settings.core.dags_folder / "load.py").write_text(LOAD.format(here=str(tmp_path)))
    async with serving(settings, CeleryEngine(settings)) as scheduler:
        run = await scheduler.trigger("load", run_id="r")
        await until(lambda: len(calls(tmp_path)) > 3, "some tasks")
        await asyncio.to_thread(getattr(broker, fault))
        ended = asyncio.ensure_future(run.wait(timeout=PATIENCE))
        while not ended.done():
            await scheduler.executor.send_again()  # type: ignore[attr-defined]  # what a timer does
            await asyncio.wait({ended}, timeout=1.0)
        assert await ended == "success"
        assert await rows(scheduler, "SELECT DISTINCT state, try_number, losses FROM task_instance") == [
            ("success", 1, 0)
        ]
    assert sorted(map(int, calls(tmp_path))) == [*range(40), *range(100, 140)]


class TwiceEngine(CeleryEngine):
    """Sends each job twice."""

    async def send(self, jobs: Sequence[Job], *, quick: bool) -> None:
        await super().send([*jobs, *jobs], quick=quick)


@only_redis
async def test_a_job_that_is_delivered_twice_runs_once(
    settings: Settings, workers: CeleryWorkers, tmp_path: Path
) -> None:
    workers.start("second")
    (settings.core.dags_folder / "load.py").write_text(LOAD.format(here=str(tmp_path)))
    async with serving(settings, TwiceEngine(settings)) as scheduler:
        run = await scheduler.trigger("load", run_id="r")
        assert await run.wait(timeout=PATIENCE) == "success"
        assert await rows(scheduler, "SELECT DISTINCT try_number, losses FROM task_instance") == [(1, 0)]
    assert sorted(map(int, calls(tmp_path))) == [*range(40), *range(100, 140)]


@only_redis
async def test_the_queue_of_a_task_is_a_celery_queue_and_one_without_workers_holds_up_no_other(
    settings: Settings, workers: CeleryWorkers, tmp_path: Path
) -> None:
    settings.core.parallelism = 200
    settings.scheduler.lease = 6.0  # a scheduler stores what it sees three times within it
    (settings.core.dags_folder / "queues.py").write_text(QUEUES)
    workers.start("gpu", "--queues", "gpu", PLACE="with a gpu")
    async with serving(settings, CeleryEngine(settings)) as scheduler:
        await scheduler.trigger("queues", run_id="r")
        ended = "SELECT count(*) FROM task_instance WHERE state = 'success'"
        async with asyncio.timeout(PATIENCE):
            while await rows(scheduler, ended) != [(1,)]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert await rows(scheduler, "SELECT value FROM xcom") == [('"with a gpu"',)]
        async with asyncio.timeout(PATIENCE):
            while "none takes from" not in (told := str(await scheduler.why("queues", "r", "waits"))):  # noqa: ASYNC110
                await asyncio.sleep(0.05)  # the figures of its scheduler are seconds old
        assert "nobody" in told


async def test_schedulers_show_the_workers_and_queues_that_they_see(
    settings: Settings, workers: CeleryWorkers, dsn: str, waits: Path
) -> None:
    workers.start("second")
    settings.scheduler.lease = 6.0  # a scheduler stores what it sees three times within it
    async with serving(settings, CeleryEngine(settings)) as scheduler:
        await scheduler.trigger("d", run_id="r")
        seen = """
            SELECT count(*) = 2 AND sum((worker ->> 2)::int) = 2
              FROM scheduler, jsonb_array_elements(figures::jsonb #> '{executor,celery,engine,listed}') AS worker
        """
        async with asyncio.timeout(PATIENCE):
            while await rows(scheduler, seen) != [(True,)]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        command = [sys.executable, "-P", "-m", "aiosched", "schedulers", "list", "--dsn", dsn]
        shown = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
        assert f"sees 2 workers of celery with 4 slots, queue {settings.celery.default_queue!r}: 0" in shown.stderr
        assert "first@here: 2 slots" in shown.stderr
        (waits / "go").touch()
        await scheduler.wait_idle()


@pytest.mark.parametrize("pool", ["threads", "prefork"])
@only_redis
async def test_a_task_that_is_cancelled_ends_in_its_worker(
    short_lease: None, settings: Settings, workers: CeleryWorkers, waits: Path, pool: str
) -> None:
    if pool == "prefork":  # its children hear of the cancellation with their heartbeats
        await asyncio.to_thread(workers.kill, "first")
        workers.start_prefork("second")
    async with serving(settings, CeleryEngine(settings)) as scheduler:
        for number, task_id in enumerate(("plain", "coroutine"), 1):
            await scheduler.trigger("d", run_id=task_id)
            await until(lambda: len(calls(waits)) == 2, "both tasks")
            await scheduler.mark_task("d", task_id, task_id, "failed")
            async with asyncio.timeout(PATIENCE):
                while len(await rows(scheduler, "SELECT FROM engine_attempt")) > 1:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            (waits / "go").touch()
            await scheduler.wait_idle()
            states = sorted(row[0] for row in await rows(scheduler, TRIES))
            assert states == ["failed"] * number + ["success"] * number, task_id
            for name in ("calls", "go"):
                (waits / name).unlink()


@pytest.mark.usefixtures("hangup")
@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP])
@only_redis
async def test_a_worker_that_is_told_to_stop_loses_its_attempts_and_ends(
    settings: Settings, workers: CeleryWorkers, waits: Path, told: signal.Signals
) -> None:
    async with serving(settings, CeleryEngine(settings)) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        await until(lambda: len(calls(waits)) == 2, "both tasks")
        first = workers.processes["first"]
        os.kill(first.pid, told)
        assert await asyncio.to_thread(first.wait, PATIENCE) == 0
        workers.start("second")
        (waits / "go").touch()
        assert await run.wait(timeout=PATIENCE) == "success"
        assert await rows(scheduler, TRIES) == [("success", 2, 0)] * 2
        reasons = "SELECT DISTINCT reason FROM task_try WHERE state = 'lost'"
        assert await rows(scheduler, reasons) == [("its worker was told to stop",)]


@only_redis
async def test_a_worker_with_the_pool_prefork_ends_on_sigquit_and_its_attempts_run_elsewhere(
    short_lease: None, settings: Settings, workers: CeleryWorkers, tmp_path: Path
) -> None:
    (settings.core.dags_folder / "d.py").write_text(ALONE.format(here=str(tmp_path)))
    await asyncio.to_thread(workers.kill, "first")
    workers.start_prefork("second")
    async with serving(settings, CeleryEngine(settings)) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        await until(lambda: len(calls(tmp_path)) == 2, "both tasks")
        second = workers.processes["second"]
        os.kill(second.pid, signal.SIGQUIT)
        await asyncio.to_thread(second.wait, PATIENCE)
        workers.start("third")
        (tmp_path / "go").touch()
        assert await run.wait(timeout=PATIENCE) == "success"
        assert await rows(scheduler, TRIES) == [("success", 2, 0)] * 2


@pytest.mark.usefixtures("hangup")
@pytest.mark.parametrize("closed", [False, True], ids=["SIGTERM", "closed terminal"])
@only_redis
async def test_a_worker_with_the_pool_prefork_finishes_its_attempts(
    settings: Settings, workers: CeleryWorkers, tmp_path: Path, *, closed: bool
) -> None:
    """A terminal that is closed tells the whole group of processes."""
    (settings.core.dags_folder / "d.py").write_text(ALONE.format(here=str(tmp_path)))
    await asyncio.to_thread(workers.kill, "first")
    workers.start_prefork("second")
    async with serving(settings, CeleryEngine(settings)) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        await until(lambda: len(calls(tmp_path)) == 2, "both tasks")
        second = workers.processes["second"]
        if closed:
            os.killpg(second.pid, signal.SIGHUP)
        else:
            second.terminate()
        await until(lambda: "Warm shutdown" in workers.log("second"), "the end of its work")
        (tmp_path / "go").touch()
        assert await asyncio.to_thread(second.wait, PATIENCE) == 0
        assert await run.wait(timeout=PATIENCE) == "success"
        assert await rows(scheduler, TRIES) == [("success", 1, 0)] * 2


async def test_a_queue_that_the_broker_does_not_have_holds_up_no_other(
    settings: Settings, broker: RealBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """The names are those of a task: one that is too long, one that RabbitMQ keeps for itself, one that is not ours."""
    with broker.connection() as connection, connection.channel() as channel:
        channel.queue_declare(queue="of somebody else", durable=False)
    settings.celery.team_keys = {"sales": new_key()}
    engine, ended = CeleryEngine(settings), dict[int, str]()
    await engine.start(ended.__setitem__)
    names = ["default", "x" * 300, "ü" * 130, "amq.mine", "of somebody else", "default"]
    jobs = [Job(id=number, token="t", urls=(), queue=name) for number, name in enumerate(names, 1)]
    jobs.append(Job(id=7, token="t", urls=(), queue="x" * 250, team="sales"))
    try:
        await engine.send(jobs, quick=False)
        assert {1, 6} <= await engine.holds(range(1, 8))
        assert engine.status().queues[settings.celery.default_queue] == 2
    finally:
        await engine.stop()
    assert ended.keys() == {2, 3, 7}
    assert all("is longer than 255 bytes" in reason for reason in ended.values())
    if broker.url.startswith("amqp"):
        refused = [text for text in caplog.messages if "attempts wait for the queue" in text]
        assert [name for name in ("amq.mine", "of somebody else") if name in str(refused)] == names[3:5]


async def test_a_broker_that_hangs_does_not_block_the_event_loop(
    settings: Settings, broker: RealBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience = 2.0  # seconds, instead of five
    monkeypatch.setattr(waiting, "TIMEOUT", patience)
    limits = {name: dict.fromkeys(options, patience) | {"max_retries": 1} for name, options in waiting.OPTIONS.items()}
    monkeypatch.setattr(waiting, "OPTIONS", limits)
    engine = CeleryEngine(settings)
    job = Job(id=1, token="t", urls=("http://127.0.0.1:1",))
    await engine.send([job], quick=False)
    assert await engine.holds([1]) == {1}
    broker.pause()
    try:
        sending = asyncio.ensure_future(engine.send([job], quick=False))
        ticks = 0
        while not sending.done():
            await asyncio.sleep(0.05)
            ticks += 1
        with pytest.raises(EngineUnavailable, match=r"celery\.broker"):
            await sending
        assert 20 < ticks < 20 * PATIENCE
    finally:
        broker.resume()
        await engine.stop()


async def test_a_broker_that_cannot_be_reached_is_named_once_and_holds_up_nothing(
    settings: Settings, waits: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        settings.celery.broker = f"redis://:sesame@127.0.0.1:{sock.getsockname()[1]}/0"
        settings.celery.keys = new_key()
        engine = CeleryEngine(settings)
        async with serving(settings, engine) as scheduler:
            await scheduler.trigger("d", run_id="r")
            await until(lambda: caplog.messages, "a warning")
            why = await scheduler.why("d", "r", "plain")
            await until(lambda: "slots open" in str(why), "the reason")
            async with asyncio.timeout(PATIENCE):
                while "cannot be reached (celery.broker)" not in str(await scheduler.why("d", "r", "plain")):  # noqa: ASYNC110
                    await asyncio.sleep(0.1)  # until its scheduler has published its figures
            assert "sesame" not in str(await scheduler.why("d", "r", "plain"))
    warnings = [text for text in caplog.messages if "cannot be reached (celery.broker)" in text]
    assert (len(warnings), engine.slots) == (1, 0)
    assert "sesame" not in caplog.text


async def test_without_celery_a_broker_or_a_key_the_kind_says_what_to_do(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=r"needs a broker: set celery\.broker"):
        CeleryEngine(settings)
    settings.celery.broker = "redis://127.0.0.1:1/0"
    with pytest.raises(ConfigError, match=r"`aiosched db make-key`, and set celery\.keys"):
        CeleryEngine(settings)
    monkeypatch.setitem(sys.modules, "celery", None)
    with pytest.raises(ConfigError, match=r"pip install 'aiosched\[celery\]'"):
        CeleryEngine(settings)


class Mailbox:
    """Of a connection that is none; `said` by whoever answers in it."""

    connection_errors = channel_errors = ()

    def __init__(self, *said: Any) -> None:
        self._said = said

    def __call__(self, *_: Any, **__: Any) -> Mailbox:
        return self

    connect = release = __call__

    def multi_call(self, *_: Any, **__: Any) -> Any:
        if isinstance(self._said[0], Exception):
            raise self._said[0]
        return list(self._said)


GOOD: dict[str, Any] = {"concurrency": 2, "queues": ["default"], "jobs": [1]}


@pytest.mark.parametrize(
    "said",
    [
        7,
        "jobs",
        {"error": "no such command"},
        {**GOOD, "concurrency": "2"},
        {**GOOD, "concurrency": 10**9},
        {**GOOD, "concurrency": -1},
        {**GOOD, "queues": [["default"]]},
        {**GOOD, "queues": ["q" * 1_000]},
        {**GOOD, "jobs": {"1": 1}},
        {**GOOD, "jobs": [None]},
    ],
)
async def test_an_answer_of_somebody_else_in_the_broker_is_ignored(settings: Settings, said: Any) -> None:
    settings.celery.broker, settings.celery.keys = "redis://127.0.0.1:9/0", new_key()
    broker = Broker(make_app(settings), settings.celery.broker, Seals(settings))
    broker._connection = broker._mailbox = Mailbox({"forged": said}, {"good": GOOD})
    assert list(await broker.workers()) == ["good"]
    await broker.close()


async def test_a_pickle_in_the_broker_is_not_read_and_the_next_look_comes(settings: Settings) -> None:
    settings.celery.broker, settings.celery.keys = "redis://127.0.0.1:9/0", new_key()
    broker = Broker(make_app(settings), settings.celery.broker, Seals(settings))
    broker._new_connection = lambda: Mailbox(1)  # type: ignore[method-assign]
    broker._mailbox = Mailbox(ContentDisallowed("Refusing to deserialize pickle"))
    with pytest.raises(EngineUnavailable, match="pickle"):
        await broker.workers()
    await broker.close()


def test_workers_and_schedulers_read_json_only(settings: Settings) -> None:
    settings.celery.broker, settings.celery.keys = "redis://127.0.0.1:9/0", new_key()
    app = make_app(settings)
    assert app.conf.accept_content == ["json"]
    assert app.conf.result_accept_content in (None, ["json"])
    assert (app.conf.task_serializer, app.conf.task_ignore_result) == ("json", True)
    assert isinstance(app.backend, DisabledBackend)
    assert Broker(app, settings.celery.broker, Seals(settings))._mailbox.accept == ["json"]
