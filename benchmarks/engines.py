"""Attempts on engines against the bare engine that makes the same calls, and against `local`, in turns in one run.

The bare engine gets the calls of all DAGs at once, each with those that it waits for. Our bodies are the same, but each
step is stored: the claim, the start, the result, the states of runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from benchmarks import measure
from benchmarks.bare_engines import bare_celery, bare_dask
from benchmarks.bare_kubernetes import bare_kubernetes
from benchmarks.engine_processes import THREADS, WORKERS
from benchmarks.engine_surroundings import celery, dask, kubernetes
from benchmarks.figures import Figure, Finding
from benchmarks.run import Surroundings, run
from benchmarks.shapes import SHAPES, CallableKind, Shape, linear

_MEASURED: Final = tuple(SHAPES[name] for name in ("linear-100x10", "parallel-500x10", "chain-200"))
# A pod starts an interpreter, which takes a second of a processor with everything that ours imports.
_PODS: Final = (Shape("pods-20", 1, 20, ()), Shape("pods-chain-5", 1, 5, linear(5)))
_KINDS: Final[tuple[CallableKind, ...]] = ("async", "sync")
_MOST: Final = 1.5  # times the bare engine, and times the processor time of `local`


@dataclass(frozen=True)
class Rival:
    """An engine: the executor, the processes that it needs, and the same calls without aiosched."""

    executor: str
    around: Surroundings
    bare: Callable[[Shape], Awaitable[float]]
    shapes: Sequence[Shape] = _MEASURED
    kinds: Sequence[CallableKind] = _KINDS


DASK: Final = Rival("dask", dask, bare_dask)
CELERY: Final = Rival("celery", celery, bare_celery)
KUBERNETES: Final = Rival("kubernetes", kubernetes, bare_kubernetes, _PODS, ("sync",))


async def against(rival: Rival, size: int, seconds: float) -> Finding:
    """Each shape in turns on the bare engine, on the executor and on `local`; `size` rounds."""
    figures: list[Figure] = []
    problems: list[str] = []
    for shape in rival.shapes:
        name = shape.name
        bare = list[float]()
        ours: dict[CallableKind, list[float]] = {kind: [] for kind in rival.kinds}
        local: dict[CallableKind, list[float]] = {kind: [] for kind in rival.kinds}
        costs: dict[CallableKind, list[float]] = {kind: [] for kind in rival.kinds}
        for _ in range(size):
            bare.append(await rival.bare(shape))
            for kind in rival.kinds:
                result = await run(shape, executor=rival.executor, kind=kind, timeout=seconds, around=rival.around)
                here = await run(shape, executor="local", kind=kind, timeout=seconds)
                ours[kind].append(result.makespan)
                local[kind].append(here.makespan)
                costs[kind].append(result.usage.scheduler.cpu_seconds / here.usage.scheduler.cpu_seconds)
                problems += [*result.problems, *here.problems]
        figures.append(Figure(f"{name}: bare", median(bare), "s"))
        for kind in rival.kinds:
            figures += [
                Figure(f"{name} {kind}: {rival.executor}", median(ours[kind]), "s"),
                Figure(f"{name} {kind}: local", median(local[kind]), "s"),
                Figure(f"{name} {kind}: times the bare engine", median(ours[kind]) / median(bare), "", most=_MOST),
                Figure(f"{name} {kind}: scheduler, times local", median(costs[kind]), "", most=_MOST),
            ]
    workers = f", {WORKERS} workers with {THREADS} slots each" if rival.shapes is _MEASURED else ", on one node"
    about = f"{size} rounds{workers}"
    return Finding(f"engine-{rival.executor}", about, measure.machine(), figures, problems)
