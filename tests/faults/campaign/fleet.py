"""The schedulers of a campaign: real `aiosched serve` processes, to be killed, paused and started again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from asyncio.subprocess import Process
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


@dataclass
class Service:
    """One scheduler's place: the same name, one process after the other."""

    name: str
    executor: str
    dsn: str
    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    module: str = "aiosched"
    process: Process | None = None
    starts: int = 0
    stopped: list[int] = field(default_factory=list)  # pids that got SIGSTOP
    paused_at: float = 0.0
    descendants: set[tuple[int, str]] = field(default_factory=set)  # of killed processes: pid and start time

    @property
    def label(self) -> str:
        """What its process and all that this starts have in their environment."""
        return f"{self.name}#{self.starts}"

    def marks(self, label: str) -> dict[str, str]:
        """Those in their environment that tell its processes from all others: other campaigns may run beside this."""
        return {"FAULTS_RECORDS": str(self.folder / "records"), "FAULTS_SCHEDULER": label}

    def labelled(self, label: str) -> list[int]:
        """The processes that have the label of one of its scheduler processes, that itself included."""
        wanted = {f"{name}={value}".encode() for name, value in self.marks(label).items()}
        found = []
        for file in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if wanted <= set(file.read_bytes().split(b"\0")) and start_time(int(file.parent.name)):
                    found.append(int(file.parent.name))
        return found

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.returncode is None

    @property
    def gave_up(self) -> bool:
        """Whether its process has ended, and not by us."""
        return self.process is not None and self.process.returncode not in (None, -signal.SIGKILL)

    def last_words(self) -> str:
        """The end of its log."""
        return " ".join((self.folder / f"{self.name}.log").read_text(errors="replace").split())[-300:]

    @property
    def pid(self) -> int:
        assert self.process is not None, "it was not started"
        return self.process.pid

    def argv(self, home: Path) -> list[str]:
        """Its command line."""
        arguments = ["serve", "--dsn", self.dsn, "--name", self.name, "--executor", self.executor, "--no-web"]
        arguments += ["--dags", str(self.folder / "dags"), "--home", str(home)]
        return [sys.executable, "-P", "-m", self.module, *arguments]

    def surroundings(self, label: str) -> dict[str, str]:
        """What its processes and those of tasks need in their environment."""
        return {
            "PYTHONPATH": os.pathsep.join([str(self.folder / "lib"), str(ROOT)]),
            **self.marks(label),
            "FAULTS_EXECUTOR": self.executor,
            "FAULTS_OFFSET": str(time.time_ns() - time.monotonic_ns()),
            "FAULTS_CLOCK": str(self.folder / "clock"),
        }

    async def start(self) -> None:
        """Start a process of this name; returns at once."""
        self.starts += 1
        self.stopped = []
        home = self.folder / "homes" / self.name
        home.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, **self.surroundings(self.label), **self.settings}
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self.argv(home),
                cwd=home, env=environment, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
                stderr=log, start_new_session=True,
            )  # fmt: skip

    async def kill(self) -> float:
        """SIGKILL for the scheduler alone; the CLOCK_MONOTONIC second of it. Its children must go by themselves."""
        self.descendants |= {(pid, started) for pid in children(self.pid) if (started := start_time(pid))}
        at = time.monotonic()
        _send(self.pid, signal.SIGKILL)
        assert self.process is not None, "it was not started"
        await self.process.wait()
        return at

    def peers(self) -> list[int]:
        """The processes of its other schedulers, with `serve --schedulers N`."""
        return [pid for pid in children(self.pid) if "aiosched.cli.serve.peer_process" in _command(pid)]

    def kill_peer(self, pid: int) -> float:
        """SIGKILL for one of its other schedulers; the CLOCK_MONOTONIC second of it. It starts another one."""
        self.descendants |= {(each, started) for each in children(pid) if (started := start_time(each))}
        at = time.monotonic()
        _send(pid, signal.SIGKILL)
        return at

    @property
    def paused(self) -> bool:
        return bool(self.stopped)

    def pause(self, *, whole: bool) -> None:
        """SIGSTOP for the scheduler, with `whole` for all its descendants too, those included that start meanwhile."""
        self.stopped, self.paused_at = [], time.monotonic()
        new = [self.pid]
        while new:
            for pid in new:
                _send(pid, signal.SIGSTOP)
            self.stopped += new
            family = [*children(self.pid), *self.labelled(self.label)] if whole else []
            new = [pid for pid in dict.fromkeys(family) if pid not in self.stopped]

    def resume(self) -> list[int]:
        """SIGCONT for what was stopped, the scheduler last; the pids."""
        pids, self.stopped = self.stopped, []
        for pid in reversed(pids):
            _send(pid, signal.SIGCONT)
        return pids

    async def stop(self, patience: float) -> bool:
        """Ask it to end in order; whether it did. It is killed otherwise."""
        if not self.alive:
            return True
        assert self.process is not None, "it was not started"
        if self.paused:
            self.resume()
        _send(self.pid, signal.SIGTERM)
        try:
            async with asyncio.timeout(patience):
                await self.process.wait()
        except TimeoutError:
            await self.kill()
            return False
        return self.process.returncode in (0, 130)

    def workers(self) -> list[int]:
        """Its descendants that run tasks or parse files, not the forkserver."""
        found = [(pid, _command(pid)) for pid in children(self.pid)]
        return [
            pid
            for pid, command in found
            if "resource_tracker" not in command and ("forkserver" not in command or _is_forked(pid))
        ]

    def forkservers(self) -> list[int]:
        """The processes that its workers are forked from."""
        return [pid for pid in children(self.pid) if "forkserver" in _command(pid) and not _is_forked(pid)]

    def survivors(self) -> list[str]:
        """Processes that outlived the scheduler process they belonged to."""
        left = {pid for pid, started in self.descendants if start_time(pid) == started}
        left |= {pid for start in range(1, self.starts + 1) for pid in self.labelled(f"{self.name}#{start}")}
        return [f"pid {pid} of {self.name} ({_command(pid)[:80].strip()})" for pid in sorted(left) if start_time(pid)]

    def logged(self) -> Iterator[dict[str, Any]]:
        """What its processes have logged, oldest first."""
        for line in (self.folder / f"{self.name}.log").read_text(errors="replace").splitlines():
            try:
                found = json.loads(line)
            except ValueError:
                found = {"level": "text", "event": line}
            if isinstance(found, dict):
                yield found


def _send(pid: int, signum: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signum)


def children(pid: int) -> list[int]:
    """All descendants of a process, nearest first."""
    found: list[int] = []
    with contextlib.suppress(OSError):  # it has ended meanwhile
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with contextlib.suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found + [grandchild for child in found for grandchild in children(child)]


def start_time(pid: int) -> str:
    """What tells a process from a later one with the same id; empty when it is gone."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if words[0] in "ZX" else words[19]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _is_forked(pid: int) -> bool:
    """Workers have the forkserver's command line, and it as their parent."""
    try:
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return False
    return "forkserver" in _command(parent)
