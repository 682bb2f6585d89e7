"""A peer as a process: it gets ready, then runs a shape whenever it is asked to. Only the standard library is imported.

The process is `python -m benchmarks.peers.NAME` in the peer's virtual environment. Lines of JSON go both ways: first
what it needs (`Place`), answered by its versions and settings when it is ready; then shapes, each answered by the
instant from which its work counts. The end of the input ends it. What the bodies write is read by who asks.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, Protocol

from benchmarks.processes import Folders
from benchmarks.shapes import Shape


@dataclass(frozen=True)
class Place:
    """Where a peer works: a folder and a database of its own, on the server that all share if it can use that."""

    root: str
    dsn: str  # postgresql://…
    on_shared_server: bool = True

    @property
    def folders(self) -> Folders:
        return Folders(Path(self.root))

    def url(self, driver: str) -> str:
        """The database as SQLAlchemy names it."""
        return self.dsn.replace("postgresql://", f"postgresql+{driver}://", 1)


class Peer(Protocol):
    """One system. `settings` says how it is set up, for the table; `packages` are those whose versions are told."""

    @property
    def settings(self) -> str: ...

    @property
    def packages(self) -> Sequence[str]: ...

    def prepare(self, place: Place) -> AbstractAsyncContextManager[None]:
        """Its servers and workers are up, and have loaded what they need."""
        ...

    async def run(self, shape: Shape, records: Path) -> float:
        """Run the shape to its end; returns when its work was submitted or due, by the monotonic clock."""
        ...


def versions(peer: Peer) -> dict[str, str]:
    return {name: version(name) for name in peer.packages}


def main(peer: Peer, run: Callable[[Coroutine[Any, Any, None]], object] = asyncio.run) -> None:
    """Serve the peer on stdin and stdout, by `run`. Whatever else writes to stdout goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    run(serve(peer, sys.stdin, answers))


async def serve(peer: Peer, asked: IO[str], answers: IO[str]) -> None:
    def answer(**what: Any) -> None:
        answers.write(json.dumps(what) + "\n")
        answers.flush()

    try:
        async with peer.prepare(Place(**json.loads(asked.readline()))):
            answer(versions=versions(peer), settings=peer.settings)
            while line := await asyncio.to_thread(asked.readline):
                question = json.loads(line)
                answer(due=await peer.run(shape_from(question["shape"]), Path(question["records"])))
    except Exception as error:
        traceback.print_exc()
        answer(error=f"{type(error).__name__}: {error}")


def shape_to(shape: Shape) -> dict[str, Any]:
    return asdict(shape)


def shape_from(document: dict[str, Any]) -> Shape:
    return Shape(**{**document, "edges": tuple((up, down) for up, down in document["edges"])})
