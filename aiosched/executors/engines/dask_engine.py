"""The engine Dask: attempts run in the workers of a Dask cluster. Needs `pip install 'aiosched[dask]'`.

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
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import msgspec

from aiosched.config import Settings
from aiosched.core.values.worker_messages import Job
from aiosched.errors import ConfigError
from aiosched.executors.engines.engine import EngineStatus, EngineUnavailable, EngineWorker

logger = logging.getLogger(__name__)

_CONNECT_TIMEOUT: Final = 5.0  # seconds
DIRECT_TIMEOUT: Final = 1.0  # seconds in which a worker answers that can be reached without Dask's scheduler
LOOK_EVERY: Final = 5.0  # seconds between two looks at the workers of the cluster
_PER_THREAD: Final = 2  # attempts that Dask is given for each thread: one runs, one waits on its way
_SEND_EVERY: Final = 0.001  # seconds in which what is submitted is collected; Dask's client takes ten times as long


class DaskEngine:
    """Implements Engine. `address` is that of a Dask scheduler; None: a cluster of this machine, which ends with it."""

    name = "dask"
    sends_ahead = True

    def __init__(self, settings: Settings) -> None:
        try:
            import distributed  # noqa: F401
        except ImportError:
            raise ConfigError("The executor 'dask' needs Dask: pip install 'aiosched[dask]'.") from None
        from aiosched.executors.engines import dask_worker

        self._worker = dask_worker
        self._settings = settings
        self._address = settings.dask.address
        self._cluster: Any = None
        self._client: Any = None  # distributed.Client, None while there is no connection
        self._threads = 0
        self._workers: dict[str, frozenset[str]] = {}  # addresses, and the resources that they offer
        self._out_of_reach: set[str] = set()  # workers that only Dask's scheduler reaches
        self._status = EngineStatus()
        self._given: Counter[str] = Counter()  # coroutines by worker, as many as it was ever given
        self._futures: dict[int, Any] = {}
        self._looking: asyncio.Task[None] | None = None
        self._connecting = asyncio.Lock()

    @property
    def slots(self) -> int:
        """Two for each thread of the cluster, as far as it is known."""
        limit = self._settings.executor.slots
        return _PER_THREAD * (self._threads if limit is None else min(limit, self._threads))

    @property
    def async_slots(self) -> int:
        """As the setting says, once there is a worker."""
        return self._settings.executor.async_slots if self._threads else 0

    async def start(self, ended: Callable[[int, str], None]) -> None:
        """Start the cluster if there is no address; connect in the background."""
        self._ended = ended
        if self._address is None:
            import distributed

            make: Any = distributed.LocalCluster
            self._cluster = await make(
                n_workers=self._settings.dask.workers,
                threads_per_worker=self._settings.executor.slots,
                processes=True,
                asynchronous=True,
                dashboard_address="127.0.0.1:0",
                silence_logs=logging.ERROR,  # its own log says little about attempts
            )
        self._looking = asyncio.create_task(self._look_for_ever(), name="looking at Dask's workers")

    async def _connected(self) -> Any:
        """The client; raises EngineUnavailable."""
        async with self._connecting:
            if self._is_connected():
                return self._client
            import distributed

            connect: Any = distributed.Client
            await self._disconnect()
            options = {"asynchronous": True, "timeout": _CONNECT_TIMEOUT, "set_as_default": False}
            try:
                client = self._client = connect(self._address or self._cluster, **options)
                await client
                client.scheduler_comm.interval = _SEND_EVERY
                await client.register_plugin(self._worker.AgentPlugin(self._settings_of_workers()))
                await self._look(client)
            except Exception as error:  # a worker's agent may fail with whatever it is
                await self._disconnect()
                where = self._address or "the cluster of this machine"
                raise EngineUnavailable(f"Dask at {where} cannot be reached (dask.address): {error}") from error
            return client

    def _is_connected(self) -> bool:
        return self._client is not None and self._client.status == "running"

    def _settings_of_workers(self) -> dict[str, Any] | None:
        """The settings of the workers of our own cluster, without secrets; those of others have their own."""
        if self._cluster is None:
            return None
        needed: Any = {"core": True, "dags": True, "executor": True, "logs": {"level"}, "xcom": True}
        return self._settings.model_dump(mode="json", include=needed)

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(Exception):  # whatever state it is in
                async with asyncio.timeout(_CONNECT_TIMEOUT):
                    await client.close()

    async def _look_for_ever(self) -> None:
        is_failing = False
        while True:
            try:
                await self._look(await self._connected())
                if is_failing:
                    logger.info("Dask can be reached again")
                is_failing = False
            except EngineUnavailable as error:
                self._threads, self._status = 0, EngineStatus()
                if not is_failing:
                    logger.warning("%s", error)
                is_failing = True
            await asyncio.sleep(LOOK_EVERY)

    async def _look(self, client: Any) -> None:
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT):
                found = await client.scheduler.identity()
        except Exception as error:  # Dask's client raises various errors while its connection is being closed
            raise EngineUnavailable(f"Dask does not answer: {error}") from error
        self._threads = sum(worker["nthreads"] for worker in found["workers"].values())
        self._workers = {address: frozenset(each["resources"]) for address, each in found["workers"].items()}
        self._status = EngineStatus(
            workers=[
                EngineWorker(name=address, slots=each["nthreads"], jobs=each["metrics"].get("executing", 0))
                for address, each in found["workers"].items()
            ]
        )
        self._out_of_reach &= self._workers.keys()
        least = min((self._given[address] for address in self._workers if address in self._given), default=0)
        self._given = Counter({address: self._given.get(address, least) for address in self._workers})

    def status(self) -> EngineStatus:
        """The workers; a job is one that holds a thread."""
        return self._status

    async def send(self, jobs: Sequence[Job], *, quick: bool) -> None:
        """Give coroutines and quick functions to workers; the others become tasks that Dask keeps until they end."""
        client = await self._connected()
        jobs = await self._give(client, jobs, quick=quick)
        import distributed

        keep: Any = distributed.fire_and_forget
        try:
            for job in jobs:
                resources = None if job.queue == "default" else {job.queue: 1}
                future = client.submit(
                    self._worker.run_job,
                    msgspec.json.encode(job),
                    key=job.name,
                    pure=False,
                    retries=0,
                    resources=resources,
                )
                keep(future)
                self._futures[job.id] = future
                future.add_done_callback(self._done_of(job.id))
        except Exception as error:
            raise EngineUnavailable(f"Dask accepts nothing: {error}") from error

    async def _give(self, client: Any, jobs: Sequence[Job], *, quick: bool) -> list[Job]:
        """Give coroutines, and quick functions, to those workers that have been given the fewest; returns what is left.

        A worker takes no more functions than it can run soon.
        """
        left = [job for job in jobs if not (quick or job.is_async)]
        offered = [job for job in jobs if quick or job.is_async]
        asked = set[str]()
        while offered:
            shares: dict[str, list[Job]] = {}
            for job in offered:
                able = [a for a, has in self._workers.items() if a not in asked and job.queue in ("default", *has)]
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

    async def _give_to(self, client: Any, address: str, jobs: Sequence[Job]) -> list[Job]:
        """Give jobs to a worker; returns those that it refuses."""
        texts = [msgspec.json.encode(job) for job in jobs]
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT):
                refused = await self._ask_to_take(client, address, texts)
        except Exception as error:  # it may have left; whatever it has taken is claimed once
            self._workers.pop(address, None)
            raise EngineUnavailable(f"the Dask worker at {address} takes nothing: {error}") from error
        self._given[address] -= len(refused)
        return [job for job in jobs if job.id in refused]

    async def _ask_to_take(self, client: Any, address: str, texts: Sequence[bytes]) -> list[int]:
        """Ask a worker itself; through Dask's scheduler, which takes three times as long, if it cannot be reached."""
        if address not in self._out_of_reach:
            try:
                async with asyncio.timeout(DIRECT_TIMEOUT):
                    found = await getattr(client.rpc(address), self._worker.TAKE_JOBS)(texts=texts)
                    return [int(number) for number in found]
            except (OSError, TimeoutError, TypeError, ValueError) as error:
                logger.info("the Dask worker at %s is asked through Dask's scheduler: %s", address, error)
                self._out_of_reach.add(address)
        refused: list[int] = (await client.run(self._worker.take_jobs, list(texts), workers=[address]))[address]
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
            if known.status == "error":
                self._ended(job, f"its Dask task failed: {_reason(known)}")

    async def cancel(self, jobs: Collection[int], *, grace: float) -> None:
        """Tell all workers: those that run one of these jobs end it."""
        client = await self._connected()
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT):
                await client.run(self._worker.cancel_jobs, list(jobs), grace, on_error="ignore")
        except (OSError, TimeoutError) as error:
            raise EngineUnavailable(str(error)) from error

    async def holds(self, jobs: Collection[int]) -> set[int]:
        """Those of the jobs of which Dask's scheduler knows that they wait or run."""
        client = await self._connected()
        names = {f"aiosched-{job}": job for job in jobs}
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT):
                found = await client.run_on_scheduler(self._worker.unfinished, keys=list(names))
                held = await client.run(self._worker.held_jobs, on_error="ignore")
        except (OSError, TimeoutError) as error:
            raise EngineUnavailable(str(error)) from error
        return {names[name] for name in found} | {job for some in held.values() for job in some if job in jobs}

    async def stop(self) -> None:
        """Disconnect. Our own cluster ends, and its attempts are lost; those of another one go on."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        if self._cluster is not None and self._client is not None:
            with contextlib.suppress(Exception):  # then the lease of its workers decides
                async with asyncio.timeout(2 * _CONNECT_TIMEOUT):
                    await self._client.run(self._worker.stop_agent)
        await self._disconnect()
        if self._cluster is not None:
            cluster, self._cluster = self._cluster, None
            await cluster.close()


def _reason(future: Any) -> str:
    try:
        error = future._state.exception
    except AttributeError:
        error = None
    return f"{type(error).__name__}: {error}" if error is not None else "Dask does not say why"
