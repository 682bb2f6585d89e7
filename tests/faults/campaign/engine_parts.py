"""The engines of a campaign: their processes and workers, servers with the worker API, and what can happen to them."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiosched.db.crypto.keyring import new_key
from tests.faults.campaign.fleet import Service, children
from tests.faults.checker import Freeze
from tests.ports import free_port

WORKER_LEASE = 4.0  # seconds


@dataclass
class Part(Service):
    """One process of an engine. `kind` is for the counts; `command` is a whole command line."""

    kind: str = ""
    command: Sequence[str] = ()

    def argv(self, home: Path) -> list[str]:
        return list(self.command)

    @property
    def gave_up(self) -> bool:
        """Those of engines may end by themselves: workers that have lost their scheduler, say."""
        return False


@dataclass
class Paused:
    """Processes that stand still."""

    pids: list[int]
    since: float = field(default_factory=time.monotonic)

    def resume(self) -> list[Freeze]:
        for pid in reversed(self.pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        return [Freeze(pid, self.since, time.monotonic()) for pid in self.pids]


class Engine:
    """All processes of an engine, in the order in which they start; `settings` are those of schedulers and workers."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self.folder = folder
        apis = [_worker_api(number, folder, dsn) for number in range(2)]
        self.parts: list[Part] = [part for part, _ in apis]
        self.settings = {
            "AIOSCHED_DAGS": str(folder / "dags"),
            "AIOSCHED__EXECUTOR__WORKER_API": ",".join(url for _, url in apis),
            "AIOSCHED__EXECUTOR__WORKER_LEASE": str(WORKER_LEASE),
        }

    async def start(self) -> None:
        """Before anything else starts."""

    async def close(self) -> None:
        """After everything else has ended."""

    def add(self, kind: str, *command: str, **environment: str) -> None:
        """One process more; a command without a path is a module of Python's."""
        number = sum(part.kind == kind for part in self.parts)
        self.parts.append(_part(kind, number, self.folder, command, environment))

    def of(self, kind: str) -> list[Part]:
        """Those of a kind that run and are not paused."""
        return [part for part in self.parts if part.kind == kind and part.alive and not part.paused]

    async def kill(self, kind: str, dice: random.Random) -> None:
        """SIGKILL for a process of this kind, if there is one."""
        if found := self.of(kind):
            await dice.choice(found).kill()

    async def forget(self, dice: random.Random) -> None:
        """The engine forgets everything."""
        await self.kill("engine", dice)

    def pause_worker(self, dice: random.Random) -> Paused | None:
        """SIGSTOP for a worker with all its processes; None if there is none."""
        if not (found := self.of("worker")):
            return None
        victim = dice.choice(found)
        victim.pause(whole=True)
        pids, victim.stopped = victim.stopped, []
        return Paused(pids, victim.paused_at)


class Dask(Engine):
    """A Dask scheduler with two workers of two threads."""

    def __init__(self, folder: Path, dsn: str) -> None:
        super().__init__(folder, dsn)
        port = free_port()
        quiet = ("--no-dashboard", "--dashboard-address", "127.0.0.1:0")
        self.settings["AIOSCHED__DASK__ADDRESS"] = f"tcp://127.0.0.1:{port}"
        self.add("engine", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port), *quiet)
        for number in range(2):
            options = ("--nthreads", "2", "--no-nanny", "--local-directory", str(folder / "homes" / f"worker{number}"))
            self.add("worker", "distributed.cli.dask_worker", f"tcp://127.0.0.1:{port}", *options, *quiet)


class _Celery(Engine):
    """Two Celery workers of two slots behind a broker."""

    def __init__(self, folder: Path, dsn: str) -> None:
        super().__init__(folder, dsn)
        self.settings["AIOSCHED__CELERY__BROKER"] = self.add_broker()
        self.settings["AIOSCHED__CELERY__KEYS"] = new_key()
        for number in range(2):
            self.add("worker", "aiosched", "celery", "worker", "--slots", "2", "--hostname", f"worker{number}@here")

    def add_broker(self) -> str:
        """Add its processes; returns its address."""
        raise NotImplementedError


class CeleryOnRedis(_Celery):
    """A Redis that keeps nothing."""

    def add_broker(self) -> str:
        from tests.engines.brokers import Redis

        self.broker = Redis()
        self.add("engine", *self.broker.command())
        return self.broker.url

    async def close(self) -> None:
        self.broker.close()


class CeleryOnRabbitMQ(_Celery):
    """A RabbitMQ, which has its messages on disk; half of the time it loses them."""

    def add_broker(self) -> str:
        from tests.engines.brokers import EPMD, RabbitMQ

        self.broker = RabbitMQ()
        environment = {k: v for k, v in self.broker.environment().items() if os.environ.get(k) != v}
        assert EPMD is not None, "the Erlang port mapper comes with RabbitMQ"
        self.add("port mapper", EPMD, "-port", environment["ERL_EPMD_PORT"], "-address", "127.0.0.1")
        self.add("engine", *self.broker.command(), **environment)
        return self.broker.url

    async def kill(self, kind: str, dice: random.Random) -> None:
        for part in self.of(kind) if kind == "engine" else ():  # Erlang's machine is a child
            pids = [*children(part.pid), part.pid]
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        await super().kill(kind, dice)

    async def forget(self, dice: random.Random) -> None:
        import shutil

        await super().forget(dice)
        if dice.random() < 0.5:
            shutil.rmtree(self.broker.folder / "data", ignore_errors=True)

    async def close(self) -> None:
        self.broker.close()


class Pods(Engine):
    """Pods of the test API server, which run as processes of this machine."""

    def __init__(self, folder: Path, dsn: str) -> None:
        super().__init__(folder, dsn)
        self.settings |= {"AIOSCHED__KUBERNETES__IMAGE": "aiosched", "AIOSCHED__KUBERNETES__REQUESTS_PER_SECOND": "500"}

    async def start(self) -> None:
        from tests.engines.kubelet import Kubelet
        from tests.engines.kubernetes_api import KubernetesApi

        self.api = KubernetesApi()
        await self.api.start()
        self.settings["AIOSCHED__KUBERNETES__KUBECONFIG"] = str(self.api.kubeconfig(self.folder))
        marks = Part("pods", "", "", self.folder).surroundings("pods#1")
        self.kubelet = Kubelet(self.api, self.folder / "pods", {**self.settings, **marks})

    async def close(self) -> None:
        await self.kubelet.close()
        await self.api.stop()

    def _running(self) -> list[int]:
        return [each.pid for each in self.kubelet._processes.values() if each.returncode is None]

    async def kill(self, kind: str, dice: random.Random) -> None:
        if kind != "worker":
            await super().kill(kind, dice)
        elif found := self._running():
            with contextlib.suppress(ProcessLookupError):
                os.kill(dice.choice(found), signal.SIGKILL)

    async def forget(self, dice: random.Random) -> None:
        """The API server restarts: connections are cut; it has its objects on disk."""
        await self.api.stop()
        await self.api.start()

    def pause_worker(self, dice: random.Random) -> Paused | None:
        if not (found := self._running()):
            return None
        pid = dice.choice(found)
        pids = [pid, *children(pid)]
        for each in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGSTOP)
        return Paused(pids)


def _worker_api(number: int, folder: Path, dsn: str) -> tuple[Part, str]:
    port = free_port()
    home = folder / "homes" / "worker-api"  # of both: they share the logs
    options = ("--dsn", dsn, "--home", str(home), "--port", str(port))
    part = _part("worker API", number, folder, ("aiosched", "serve", "--role", "worker-api", *options), {})
    return part, f"http://127.0.0.1:{port}"


def _part(kind: str, number: int, folder: Path, command: Sequence[str], environment: dict[str, Any]) -> Part:
    python = () if command[0].startswith("/") else (sys.executable, "-P", "-m")
    name = f"{kind.replace(' ', '-')}{number}"
    return Part(name, "", "", folder, dict(environment), kind=kind, command=(*python, *command))
