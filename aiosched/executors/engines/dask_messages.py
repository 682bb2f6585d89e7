"""The messages between a scheduler and its process that talks to Dask, and what they may say.

Whoever answers in a Dask cluster can run code in that process (Dask's library unpickles), so the scheduler takes from
it only these types, of bounded size. Frames are those of workers (worker/protocol.py).
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from aiosched.executors.worker.protocol import Message

LARGEST_ANSWER: Final = 1_048_576  # bytes of a frame for the scheduler
MOST_AT_ONCE: Final = 500  # jobs in one question
MOST_WORKERS: Final = 5_000  # of which it tells
LONGEST_NAME: Final = 100  # characters of a worker's address
LONGEST_REASON: Final = 1_000  # characters

Id = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
Name = Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)]
Reason = Annotated[str, msgspec.Meta(max_length=LONGEST_REASON)]


class DaskJob(msgspec.Struct, frozen=True, array_like=True):
    """A job: `text` is all of it, as JSON, which only its worker reads."""

    id: int
    name: str
    queue: str
    is_async: bool
    text: bytes


# scheduler -> process


class Begin(Message, frozen=True):
    """The first message. `address` is that of a Dask scheduler; None: a cluster of this machine, which ends with it.

    Its `workers`, None for Dask's own choice, have so many `threads` each and these `settings`.
    """

    address: str | None
    workers: int | None = None
    threads: int | None = None
    settings: dict[str, Any] | None = None


class Look(Message, frozen=True):
    """A question: what is there? It is answered by the next look, or after a while with the last one."""

    number: int


class Send(Message, frozen=True):
    """A question: carry these jobs to workers. See Engine.send."""

    number: int
    jobs: list[DaskJob]
    quick: bool


class CancelJobs(Message, frozen=True):
    """A question: end these jobs."""

    number: int
    jobs: list[int]
    grace: float


class Holds(Message, frozen=True):
    """A question: which of these jobs, by their names, wait or run?"""

    number: int
    jobs: dict[str, int]


class Stop(Message, frozen=True):
    """The last question: disconnect, and end one's own cluster."""

    number: int


# process -> scheduler


class SeenWorker(msgspec.Struct, frozen=True, array_like=True):
    """A worker of the cluster: its address, its threads, and how many of them are in use."""

    name: Name
    threads: Count
    executing: Count


class Seen(Message, frozen=True):
    """The answer to Look: the cluster at the last look. `trouble`: why it cannot be reached; "" if it can."""

    number: int
    threads: Count
    workers: Annotated[list[SeenWorker], msgspec.Meta(max_length=MOST_WORKERS)]
    trouble: Reason = ""


class Done(Message, frozen=True):
    """The answer to another question: jobs of the question that have become Dask tasks, or are held.

    `trouble`: why it was not done; "" if it was.
    """

    number: int
    jobs: Annotated[list[Id], msgspec.Meta(max_length=100_000)]
    trouble: Reason = ""


class Ended(Message, frozen=True):
    """The Dask task of a job has ended: it failed for a `reason`, or None."""

    job: Id
    reason: Reason | None = None


ToDask = Begin | Look | Send | CancelJobs | Holds | Stop
FromDask = Seen | Done | Ended

to_dask: Final[msgspec.msgpack.Decoder[ToDask]] = msgspec.msgpack.Decoder(ToDask)
from_dask: Final[msgspec.msgpack.Decoder[FromDask]] = msgspec.msgpack.Decoder(FromDask)
