"""The peers by name: how they are shown, what they need, and the sizes in which they run a shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from benchmarks.shapes import SHAPES, Shape, sized

COMPARED: Final = tuple(
    SHAPES[name]
    for name in ("linear-100x10", "linear-10x100", "tree-100x10", "parallel-500x10", "fan-1000", "chain-200")
)

_SMALL: Final = MappingProxyType(  # for those that run some tens of tasks a second
    {
        "linear-100x10": sized(SHAPES["linear-100x10"], 10, 10),
        "linear-10x100": sized(SHAPES["linear-10x100"], 2, 50),
        "tree-100x10": sized(SHAPES["tree-100x10"], 10, 10),
        "parallel-500x10": sized(SHAPES["parallel-500x10"], 20, 10),
        "fan-1000": sized(SHAPES["fan-1000"], 1, 102),
        "chain-200": sized(SHAPES["chain-200"], 1, 50),
    }
)
_SMALLEST: Final = MappingProxyType(  # for those that take about a second a task
    {
        "linear-100x10": sized(SHAPES["linear-100x10"], 4, 10),
        "linear-10x100": sized(SHAPES["linear-10x100"], 2, 20),
        "tree-100x10": sized(SHAPES["tree-100x10"], 4, 10),
        "parallel-500x10": sized(SHAPES["parallel-500x10"], 5, 10),
        "fan-1000": sized(SHAPES["fan-1000"], 1, 42),
        "chain-200": sized(SHAPES["chain-200"], 1, 20),
    }
)

JOBS: Final = Shape("jobs-5000", 5000, 1, ())  # one-off jobs: a run each, of one DAG
_FEWER: Final = MappingProxyType({JOBS.name: Shape("jobs-1000", 1000, 1, ())})


@dataclass(frozen=True)
class Kind:
    """A system to compare with. `module` is its file in this package, and the name of its requirements."""

    name: str
    title: str
    module: str
    arguments: tuple[str, ...] = ()
    smaller: Mapping[str, Shape] = field(default_factory=dict)  # by the name of a shape; others in full
    ready_within: float = 60.0  # seconds
    bound: float = 120.0  # seconds for a shape
    extension: str = ""  # of PostgreSQL, without which it cannot start
    own: bool = False  # runs in this environment, and always takes part
    runs_jobs: bool = False  # compared by one-off jobs, and not by the shapes of DAGs

    def size_of(self, shape: Shape) -> Shape:
        """The shape in the size in which this peer runs it."""
        return self.smaller.get(shape.name, shape)


KINDS: Final = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            Kind("local", "aiosched `local`", "ours", ("local",), bound=300.0, own=True),
            Kind("inline", "aiosched `inline`", "ours", ("inline",), bound=300.0, own=True),
            Kind("dask", "Dask", "dask"),
            Kind("celery", "Celery", "celery"),
            Kind("dbos", "DBOS", "dbos"),
            Kind(
                "prefect",
                "Prefect",
                "prefect",
                smaller=_SMALL,
                ready_within=240.0,
                bound=240.0,
                extension="pg_trgm",
            ),
            Kind("airflow", "Airflow", "airflow", smaller=_SMALLEST, ready_within=240.0, bound=240.0),
            Kind("jobs", "aiosched `inline`", "our_jobs", bound=300.0, own=True, runs_jobs=True),
            Kind("procrastinate", "procrastinate", "procrastinate", smaller=_FEWER, bound=300.0, runs_jobs=True),
            Kind("arq", "arq", "arq", runs_jobs=True),
        )
    }
)
PEERS: Final = tuple(kind.name for kind in KINDS.values() if not kind.own and not kind.runs_jobs)
