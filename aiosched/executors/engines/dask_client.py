"""Talks to Dask, in a process of its own (dask_process.py): what it hears from Dask may be the code of anybody there.

A plain function is one Dask task, which holds a thread of its worker while it runs; Dask keeps it even if every
scheduler has left. Coroutines need no thread, so they do not wait for one: they are given to the agents of Dask's
workers directly, many at a time, and become Dask tasks only while there is no worker (which lets an adaptive cluster
grow). So are plain functions while they end faster than Dask starts tasks. A plugin keeps one agent in each worker
(dask_worker.py), whose processes stay warm. The `queue` of a task names a resource that its worker has to offer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import distributed
from distributed import KilledWorker

from aiosched.executors.engines import dask_worker
from aiosched.executors.engines.dask_messages import LONGEST_NAME, Begin, DaskJob, SeenWorker
from aiosched.executors.engines.engine import EngineUnavailable

logger: logging.Logger = logging.getLogger(__name__)

CONNECT_TIMEOUT: Final = 5.0  # seconds
DIRECT_TIMEOUT: Final = 1.0  # seconds in which a worker answers that can be reached without Dask's scheduler
LOOK_EVERY: Final = 5.0  # seconds between two looks at the workers of the cluster
_SEND_EVERY: Final = 0.001  # seconds in which what is submitted is collected; Dask's client takes ten times as long


class DaskClient:
    """A connection to the Dask scheduler of `begin`; without an address there, to a cluster of this machine.

    `ended` hears of each Dask task that has ended: its job, and why it failed or None.
    """

    def __init__(self, begin: Begin, ended: Callable[[int, str | None], None]) -> None:
        self._begin, self._ended = begin, ended
        self._cluster: Any = None
        self._client: Any = None  # distributed.Client, None while there is no connection
        self._comm: Any = None  # the client's connection that was prepared; it may make others by itself
        self._connecting: asyncio.Task[Any] | None = None
        self.threads: int = 0
        self.workers: list[SeenWorker] = []
        self.trouble: str = ""  # why Dask cannot be reached
        self.looked: asyncio.Event = asyncio.Event()  # set by each look; whoever waits for the next one clears it
        self._offers: dict[str, frozenset[str]] = {}  # addresses of workers, and the resources that they offer
        self._out_of_reach: set[str] = set()  # workers that only Dask's scheduler reaches
        self._given: Counter[str] = Counter()  # coroutines by worker, as many as it was ever given
        self._futures: dict[int, Any] = {}

    async def start_cluster(self) -> None:
        """Start the cluster if there is no address."""
        if self._begin.address is None:
            make: Any = distributed.LocalCluster
            self._cluster = await make(
                n_workers=self._begin.workers,
                threads_per_worker=self._begin.threads,
                processes=True,
                asynchronous=True,
                dashboard_address="127.0.0.1:0",
                silence_logs=logging.ERROR,  # its own log says little about attempts
            )

    async def connected(self) -> Any:
        """The client; raises EngineUnavailable. Whoever does not wait any more does not end what others wait for."""
        if self._is_connected():
            return self._client
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect(), name="connecting to Dask")
            self._connecting.add_done_callback(self._has_connected)
        return await asyncio.shield(self._connecting)

    def _has_connected(self, done: asyncio.Task[Any]) -> None:
        self._connecting = None
        if not done.cancelled():
            done.exception()  # perhaps nobody waits for it

    async def _connect(self) -> Any:
        connect: Any = distributed.Client
        await self._disconnect()
        options = {"asynchronous": True, "timeout": CONNECT_TIMEOUT, "set_as_default": False}
        try:
            if self._begin.address is None and self._cluster is None:
                raise EngineUnavailable("it is being started")
            client = self._client = connect(self._begin.address or self._cluster, **options)
            await client
            self._comm = client.scheduler_comm
            self._comm.interval = _SEND_EVERY
            await client.register_plugin(dask_worker.AgentPlugin(self._begin.settings))
            await self._look(client)
        except Exception as error:  # a worker's agent may fail with whatever it is
            await self._disconnect()
            where = self._begin.address or "the cluster of this machine"
            raise EngineUnavailable(f"Dask at {where} cannot be reached (dask.address): {error}") from error
        return client

    def _is_connected(self) -> bool:
        """Not if the client has joined another scheduler meanwhile, which has no plugin of ours for its workers."""
        client = self._client
        return client is not None and client.status == "running" and client.scheduler_comm is self._comm

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(Exception):  # whatever state it is in
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    await client.close()

    async def look_for_ever(self) -> None:
        """Connect, look at the workers, and do so again."""
        while True:
            try:
                await self._look(await self.connected())
                self.trouble = ""
            except EngineUnavailable as error:
                self.threads, self.workers, self.trouble = 0, [], str(error)
            self.looked.set()
            await asyncio.sleep(LOOK_EVERY)

    async def _look(self, client: Any) -> None:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                found = await client.scheduler.identity()
            workers = {str(address): each for address, each in found["workers"].items()}
            self._offers = {address: frozenset(map(str, each["resources"])) for address, each in workers.items()}
            seen = {address: _seen(address, each) for address, each in workers.items()}
        except Exception as error:  # Dask's client raises various errors while its connection is being closed
            raise EngineUnavailable(f"Dask does not answer: {error}") from error
        self.workers = list(seen.values())
        self.threads = sum(each.threads for each in self.workers)
        self._out_of_reach &= self._offers.keys()
        least = min((self._given[address] for address in self._offers if address in self._given), default=0)
        self._given = Counter({address: self._given.get(address, least) for address in self._offers})

    async def send(self, jobs: Sequence[DaskJob], *, quick: bool, sent: list[int]) -> None:
        """Give coroutines and quick functions to workers; the others become tasks that Dask keeps until they end.

        `sent` gets the jobs that have become tasks. Raises EngineUnavailable.
        """
        client = await self.connected()
        jobs = await self._give(client, jobs, quick=quick)
        keep: Any = distributed.fire_and_forget
        try:
            for job in jobs:
                resources = None if job.queue == "default" else {job.queue: 1}
                future = client.submit(
                    dask_worker.run_job, job.text, key=job.name, pure=False, retries=0, resources=resources
                )
                keep(future)
                if job.id not in self._futures:  # else one end is told of both
                    sent.append(job.id)
                self._futures[job.id] = future
                future.add_done_callback(self._done_of(job.id))
        except Exception as error:
            raise EngineUnavailable(f"Dask accepts nothing: {error}") from error

    async def _give(self, client: Any, jobs: Sequence[DaskJob], *, quick: bool) -> list[DaskJob]:
        """Give coroutines, and quick functions, to those workers that have been given the fewest; returns what is left.

        A worker takes no more functions than it can run soon.
        """
        left = [job for job in jobs if not (quick or job.is_async)]
        offered = [job for job in jobs if quick or job.is_async]
        asked = set[str]()
        while offered:
            shares: dict[str, list[DaskJob]] = {}
            for job in offered:
                able = [a for a, has in self._offers.items() if a not in asked and job.queue in ("default", *has)]
                if able:
                    address = min(able, key=self._given.__getitem__)
                    self._given[address] += 1
                    shares.setdefault(address, []).append(job)
                else:
                    left.append(job)
            refused = await asyncio.gather(*(self._give_to(client, *share) for share in shares.items()))
            asked |= shares.keys()
            offered = [job for some in refused for job in some]
        return left

    async def _give_to(self, client: Any, address: str, jobs: Sequence[DaskJob]) -> list[DaskJob]:
        """Give jobs to a worker; returns those that it refuses."""
        texts = [job.text for job in jobs]
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                refused = await self._ask_to_take(client, address, texts)
        except Exception as error:  # it may have left; whatever it has taken is claimed once
            self._offers.pop(address, None)
            raise EngineUnavailable(f"the Dask worker at {address} takes nothing: {error}") from error
        self._given[address] -= len(refused)
        return [job for job in jobs if job.id in refused]

    async def _ask_to_take(self, client: Any, address: str, texts: Sequence[bytes]) -> list[int]:
        """Ask a worker itself; through Dask's scheduler, which takes three times as long, if it cannot be reached."""
        if address not in self._out_of_reach:
            try:
                async with asyncio.timeout(DIRECT_TIMEOUT):
                    found = await getattr(client.rpc(address), dask_worker.TAKE_JOBS)(texts=texts)
                    return [int(number) for number in found]
            except (OSError, TimeoutError, TypeError, ValueError) as error:
                logger.info("the Dask worker at %s is asked through Dask's scheduler: %s", address, error)
                self._out_of_reach.add(address)
        refused: list[int] = (await client.run(dask_worker.take_jobs, list(texts), workers=[address]))[address]
        return refused

    def _done_of(self, job: int) -> Callable[[Any], None]:
        loop = asyncio.get_running_loop()

        def done(future: Any) -> None:
            loop.call_soon_threadsafe(self._done, job, future)

        return done

    def _done(self, job: int, future: Any) -> None:
        known = self._futures.get(job)
        if known is not None and known is future:  # not one that was sent again meanwhile
            del self._futures[job]
            self._ended(job, self._failure(job, known) if known.status == "error" else None)

    def _failure(self, job: int, future: Any) -> str | None:
        """Why a Dask task failed; None if that says nothing about its job.

        One that has not begun is sent again; of one that has, the lease of its worker decides.
        """
        if isinstance(_error(future), dask_worker.NotReady | KilledWorker):
            logger.warning("a Dask task ended without its job %d: %s", job, _reason(future))
            return None
        return f"its Dask task failed: {_reason(future)}"

    async def cancel(self, jobs: Sequence[int], *, grace: float) -> None:
        """Tell all workers: those that run one of these jobs end it. Raises EngineUnavailable."""
        client = await self.connected()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                await client.run(dask_worker.cancel_jobs, list(jobs), grace, on_error="ignore")
        except Exception as error:
            raise EngineUnavailable(str(error)) from error

    async def holds(self, names: Mapping[str, int]) -> set[int]:
        """Those of the jobs, by their names, of which Dask knows that they wait or run. Raises EngineUnavailable."""
        client, asked = await self.connected(), set(names.values())
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                found = await client.run_on_scheduler(dask_worker.unfinished, keys=list(names))
                held = await client.run(dask_worker.held_jobs, on_error="ignore")
            return {names[name] for name in found} | {job for some in held.values() for job in some if job in asked}
        except Exception as error:  # also for what is no answer
            raise EngineUnavailable(str(error)) from error

    async def stop(self) -> None:
        """Disconnect. Our own cluster ends, and its attempts are lost; those of another one go on."""
        if self._cluster is not None and self._client is not None:
            with contextlib.suppress(Exception):  # then the lease of its workers decides
                async with asyncio.timeout(2 * CONNECT_TIMEOUT):
                    await self._client.run(dask_worker.stop_agent)
        await self._disconnect()
        if self._cluster is not None:
            cluster, self._cluster = self._cluster, None
            await cluster.close()


def _seen(address: str, worker: Mapping[str, Any]) -> SeenWorker:
    executing = worker["metrics"].get("executing", 0)
    return SeenWorker(address[:LONGEST_NAME], int(worker["nthreads"]), int(executing))


def _error(future: Any) -> BaseException | None:
    try:
        error: BaseException | None = future._state.exception
    except AttributeError:
        return None
    return error


def _reason(future: Any) -> str:
    error = _error(future)
    return f"{type(error).__name__}: {error}" if error is not None else "Dask does not say why"
