"""The processes of an engine in a campaign: its own, its workers, and servers with the worker API."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.campaign.fleet import Service

WORKER_LEASE = 4.0  # seconds


@dataclass
class Part(Service):
    """One process of an engine: the module that it runs and its arguments. `kind` is for the counts."""

    kind: str = ""
    command: Sequence[str] = ()

    def words(self, home: Path) -> list[str]:
        return list(self.command)

    @property
    def gave_up(self) -> bool:
        """Those of engines may end by themselves: workers that have lost their scheduler, say."""
        return False


@dataclass
class Engine:
    """All processes of an engine, in the order in which they start; `settings` are those of schedulers and workers."""

    parts: list[Part]
    settings: dict[str, str] = field(default_factory=dict)

    def of(self, kind: str) -> list[Part]:
        """Those of a kind that run and are not paused."""
        return [part for part in self.parts if part.kind == kind and part.alive and not part.paused]


def dask(folder: Path, dsn: str) -> Engine:
    """A Dask scheduler with two workers of two threads, and two worker APIs."""
    port = _free_port()
    quiet = ("--no-dashboard", "--dashboard-address", "127.0.0.1:0")
    scheduler = ("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port), *quiet)
    worker = ("distributed.cli.dask_worker", f"tcp://127.0.0.1:{port}", "--nthreads", "2", *quiet)
    parts = [_part("engine", 0, folder, scheduler)]
    parts += [
        _part("worker", n, folder, (*worker, "--no-nanny", "--local-directory", str(folder / "homes" / f"worker{n}")))
        for n in range(2)
    ]
    apis = [_worker_api(n, folder, dsn) for n in range(2)]
    return Engine(
        [*(part for part, _ in apis), *parts],
        {
            "AIOSCHED_DAGS": str(folder / "dags"),
            "AIOSCHED__DASK__ADDRESS": f"tcp://127.0.0.1:{port}",
            "AIOSCHED__EXECUTOR__WORKER_API": ",".join(url for _, url in apis),
            "AIOSCHED__EXECUTOR__WORKER_LEASE": str(WORKER_LEASE),
        },
    )


def _worker_api(number: int, folder: Path, dsn: str) -> tuple[Part, str]:
    port = _free_port()
    home = folder / "homes" / "worker-api"  # of both: they share the logs
    options = ("--dsn", dsn, "--home", str(home), "--port", str(port))
    part = _part("worker API", number, folder, ("aiosched", "serve", "--role", "worker-api", *options))
    return part, f"http://127.0.0.1:{port}"


def _part(kind: str, number: int, folder: Path, command: Sequence[str]) -> Part:
    return Part(f"{kind.replace(' ', '-')}{number}", "", "", folder, kind=kind, command=command)


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
