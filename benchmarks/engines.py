"""Attempts on engines against the bare engine that makes the same calls, and against `local`, in turns in one run.

The bare engine gets the calls of all DAGs at once, each with those that it waits for. Our bodies are the same, but each
step is stored: the claim, the start, the result, the states of runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from statistics import median
from typing import Final

from benchmarks import measure
from benchmarks.bare_engines import bare_celery, bare_dask
from benchmarks.engine_processes import THREADS, WORKERS, celery, dask
from benchmarks.figures import Figure, Finding
from benchmarks.run import Surroundings, run
from benchmarks.shapes import SHAPES, CallableKind, Shape

_MEASURED: Final = ("linear-100x10", "parallel-500x10", "chain-200")
_KINDS: Final[tuple[CallableKind, ...]] = ("async", "sync")
_MOST: Final = 1.5  # times the bare engine, and times the processor time of `local`


@dataclass(frozen=True)
class Rival:
    """An engine: the executor, the processes that it needs, and the same calls without aiosched."""

    executor: str
    around: Surroundings
    bare: Callable[[Shape], Awaitable[float]]


DASK: Final = Rival("dask", dask, bare_dask)
CELERY: Final = Rival("celery", celery, bare_celery)


async def against(rival: Rival, size: int, seconds: float) -> Finding:
    """Each shape in turns on the bare engine, on the executor and on `local`; `size` rounds."""
    figures: list[Figure] = []
    problems: list[str] = []
    for name in _MEASURED:
        shape = SHAPES[name]
        bare = list[float]()
        ours: dict[CallableKind, list[float]] = {kind: [] for kind in _KINDS}
        local: dict[CallableKind, list[float]] = {kind: [] for kind in _KINDS}
        costs: dict[CallableKind, list[float]] = {kind: [] for kind in _KINDS}
        for _ in range(size):
            bare.append(await rival.bare(shape))
            for kind in _KINDS:
                result = await run(shape, executor=rival.executor, kind=kind, timeout=seconds, around=rival.around)
                here = await run(shape, executor="local", kind=kind, timeout=seconds)
                ours[kind].append(result.makespan)
                local[kind].append(here.makespan)
                costs[kind].append(result.usage.scheduler.cpu_seconds / here.usage.scheduler.cpu_seconds)
                problems += [*result.problems, *here.problems]
        figures.append(Figure(f"{name}: bare", median(bare), "s"))
        for kind in _KINDS:
            figures += [
                Figure(f"{name} {kind}: {rival.executor}", median(ours[kind]), "s"),
                Figure(f"{name} {kind}: local", median(local[kind]), "s"),
                Figure(f"{name} {kind}: times the bare engine", median(ours[kind]) / median(bare), "", most=_MOST),
                Figure(f"{name} {kind}: scheduler, times local", median(costs[kind]), "", most=_MOST),
            ]
    about = f"{size} rounds, {WORKERS} workers with {THREADS} slots each"
    return Finding(f"engine-{rival.executor}", about, measure.machine(), figures, problems)
