"""Real brokers for tests, each with a folder and a port of its own: Redis and RabbitMQ."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from aiosched.config import Settings
from aiosched.db.crypto.keyring import new_key
from tests.patience import PATIENCE
from tests.ports import free_port
from tests.suspending import suspend

REDIS = shutil.which("redis-server")
RABBITMQ = shutil.which("rabbitmq-server", path=f"/usr/lib/rabbitmq/bin:{os.environ.get('PATH', '')}:/usr/sbin")
EPMD = shutil.which("epmd")  # comes with RabbitMQ
WHY_NO_REDIS = "redis-server is not installed (apt-get install redis-server)"
WHY_NO_RABBITMQ = "rabbitmq-server is not installed (apt-get install rabbitmq-server)"


class RealBroker(ABC):
    """A broker's process; `url` is its address, also after a restart."""

    url: str

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="aiosched-broker-"))
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """What starts it."""

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
                env=self.environment(), cwd=self.folder,
            )  # fmt: skip
        deadline = time.monotonic() + PATIENCE
        while True:
            connection = self.connection()
            try:
                connection.connect()
                connection.release()
                return
            except (OSError, *connection.connection_errors) as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    text = (self.folder / "log").read_text(errors="replace")[-2000:]
                    raise AssertionError(f"{self.url} does not answer: {error}\n{text}") from error
                time.sleep(0.1)

    def connection(self) -> Any:
        """A kombu connection to it, which is not open yet."""
        from kombu import Connection

        return Connection(self.url, connect_timeout=5, transport_options={"max_retries": 1})

    def kill(self) -> None:
        """End it at once, with all of its processes."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """As after a power cut: what it has written is there again."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """From now on it accepts connections and answers nothing."""
        suspend(self._processes())

    def resume(self) -> None:
        for process in self._processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()

    def _processes(self) -> list[psutil.Process]:
        assert self._process is not None
        started = psutil.Process(self._process.pid)
        return [started, *started.children(recursive=True)]

    @abstractmethod
    def forget(self) -> None:
        """Lose all that it has: a restart with an empty disk, or a FLUSHALL."""

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Redis(RealBroker):
    """A Redis without a disk."""

    def __init__(self) -> None:
        super().__init__()
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def command(self) -> list[str]:
        assert REDIS is not None, WHY_NO_REDIS
        return [REDIS, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]

    def forget(self) -> None:
        with self.connection() as connection:
            connection.default_channel.client.flushall()


class RabbitMQ(RealBroker):
    """A RabbitMQ node, with an Erlang port mapper of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}//"
        self._node_port, self._mapper_port = free_port(), free_port()
        self._mapper: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        assert RABBITMQ is not None, WHY_NO_RABBITMQ
        return [RABBITMQ]

    def environment(self) -> dict[str, str]:
        folder = str(self.folder)
        (self.folder / "plugins").write_text("[].")
        (self.folder / "rabbit.conf").write_text(
            f"listeners.tcp.local = 127.0.0.1:{self.port}\nloopback_users.guest = true\n"
        )
        return {
            **os.environ,
            "HOME": folder,
            "ERL_EPMD_PORT": str(self._mapper_port),
            "RABBITMQ_NODENAME": f"test{self.port}@localhost",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_DIST_PORT": str(self._node_port),
            "RABBITMQ_MNESIA_BASE": f"{folder}/data",
            "RABBITMQ_LOG_BASE": f"{folder}/logs",
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_CONFIG_FILE": f"{folder}/rabbit.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/plugins",
            "RABBITMQ_PID_FILE": f"{folder}/pid",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none",
        }

    def forget(self) -> None:
        self.kill()
        shutil.rmtree(self.folder / "data")
        self.start()

    def start(self) -> None:
        if self._mapper is None:  # otherwise Erlang starts a daemon, which outlives its node
            assert EPMD is not None, WHY_NO_RABBITMQ
            words = [EPMD, "-port", str(self._mapper_port), "-address", "127.0.0.1"]
            self._mapper = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        super().start()

    def close(self) -> None:
        super().close()
        if self._mapper is not None:
            self._mapper.kill()
            self._mapper.wait()


@pytest.fixture(scope="session")
def redis() -> Iterator[RealBroker]:
    """The session's Redis, one for each pytest-xdist worker."""
    yield from _running(Redis())


@pytest.fixture(scope="session")
def rabbitmq() -> Iterator[RealBroker]:
    """The session's RabbitMQ, one for each pytest-xdist worker."""
    yield from _running(RabbitMQ())


def _running(broker: RealBroker) -> Iterator[RealBroker]:
    try:
        broker.start()
        yield broker
    finally:
        broker.close()


def use(broker: RealBroker, settings: Settings, *, queue: str) -> None:
    """Let an engine use a broker, with a queue and a key of the test's own."""
    celery = settings.celery
    celery.broker, celery.default_queue, celery.keys = broker.url, queue, new_key()


def on_broker(name: str, *, place: str | None = None) -> Any:
    """A parameter of a slow test: `name` is a fixture of this module. Without the broker's program it is skipped."""
    program, reason = (REDIS, WHY_NO_REDIS) if name == "redis" else (RABBITMQ, WHY_NO_RABBITMQ)
    if importlib.util.find_spec("celery") is None:
        program, reason = None, "Celery is not installed: pip install 'celery[redis]'"
    return pytest.param(place or name, marks=[pytest.mark.skipif(program is None, reason=reason), pytest.mark.slow])
