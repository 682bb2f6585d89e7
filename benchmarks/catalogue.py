"""Every benchmark by its name: what it does, how big it is by default, how to run it; and what `--all` runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from benchmarks.airflow_names import airflow_names
from benchmarks.api import api_latencies, api_load
from benchmarks.chain_steps import chain_steps
from benchmarks.endurance import endurance
from benchmarks.engines import CELERY, DASK, KUBERNETES, Rival, against
from benchmarks.figures import Finding
from benchmarks.fleet import fleet
from benchmarks.flood import flood
from benchmarks.footprint import memory, ready
from benchmarks.gates import gates
from benchmarks.history import history
from benchmarks.http_requests import http_requests
from benchmarks.idle import idle
from benchmarks.jobs import measured_jobs
from benchmarks.many import many
from benchmarks.mapped import mapped, very_many_mapped
from benchmarks.materialise import materialise
from benchmarks.parsing import parse
from benchmarks.retention import retention
from benchmarks.scaling import scaling
from benchmarks.shapes import SHAPES
from benchmarks.sustained import sustained
from benchmarks.takeover import takeover
from benchmarks.triggers import triggers
from benchmarks.unfinished import unfinished
from benchmarks.warm import warm


@dataclass(frozen=True)
class Scenario:
    """A benchmark that is more than one run of a shape. `measure` gets a size and a number of seconds."""

    about: str
    measure: Callable[[int, float], Awaitable[Finding]]
    size: int
    unit: str  # what the size counts
    seconds: float = 300.0  # how long it is measured, or may take
    bound: float = 900.0  # seconds after which `--all` gives it up


async def _history(size: int, _: float) -> Finding:
    return await history(size)


def _fleet(schedulers: int) -> Scenario:
    async def measure(size: int, seconds: float) -> Finding:
        return await fleet(SHAPES["parallel-5000x10"].resized(size), schedulers, seconds)

    of = "one scheduler" if schedulers == 1 else f"{schedulers} schedulers"
    return Scenario(f"10 parallel tasks in each DAG, {of} in processes of their own", measure, 1000, "DAGs")


def _engine(rival: Rival) -> Scenario:
    async def measure(size: int, seconds: float) -> Finding:
        return await against(rival, size, seconds)

    return Scenario(f"{rival.executor} by itself, as an executor, and `local`", measure, 3, "rounds", 300, 1800)


SCENARIOS: Final = MappingProxyType(
    {
        "history-1m": Scenario(
            "lag and throughput with a history, against an empty database",
            _history,
            1_000_000,
            "task instances",
            0,
            1800,
        ),
        "history-10m": Scenario("the same, about ten minutes", _history, 10_000_000, "task instances", 0, 7200),
        "retention": Scenario(
            "removing old history beside a lot of it", retention, 1_000_000, "task instances", 0, 1800
        ),
        "unfinished-1m": Scenario(
            "loading as after a take-over, memory, `why`", unfinished, 1_000_000, "task instances", 900, 1800
        ),
        "api-1m": Scenario(
            "each list of the REST API, with a history", api_latencies, 1_000_000, "task instances", 0, 1800
        ),
        "api-load": Scenario(
            "lag of tasks with and without browsers on the web server", api_load, 100, "browsers", 30, 600
        ),
        "triggers": Scenario(
            "triggers a second of one web server, one by one and in batches", triggers, 2000, "triggers", 0, 300
        ),
        "jobs-1m": Scenario(
            "ten questions of a person on duty: clicks and time in a browser",
            measured_jobs,
            1_000_000,
            "task instances",
            0,
            1800,
        ),
        "idle-5000": Scenario("processor time and statements with nothing due", idle, 5000, "DAGs", 60),
        "materialise-1m": Scenario("a backfill's rows: time and memory", materialise, 1_000_000, "task instances"),
        "mapped-10000": Scenario("a task mapped over a list, inline", mapped, 10_000, "mapped instances"),
        "many-50000": Scenario(
            "ten DAGs in a file: read, `serve`, nothing due, all due at once, lists", many, 50_000, "DAGs", 900, 2400
        ),
        "mapped-100000": Scenario(
            "the same with 1,000 at a time: all others wait for a slot",
            very_many_mapped,
            100_000,
            "mapped instances",
            900,
        ),
        "parse-1000": Scenario("a first pass over DAG files, and looks at unchanged ones", parse, 1000, "files"),
        "airflow-names": Scenario(
            "importing airflow instead of aiosched: one import, and a first pass over files",
            airflow_names,
            1000,
            "files",
        ),
        "takeover": Scenario("SIGKILL of one of three until its DAGs move again", takeover, 100, "deaths", 1800, 2400),
        "sustained": Scenario("open-loop arrivals at 500, 1,000 and 2,000 tasks/s", sustained, 0, "tasks/s", 120),
        "chain-steps": Scenario(
            "a chain step by step: where the time between two bodies goes", chain_steps, 200, "tasks"
        ),
        "http-requests": Scenario("processor time of a request of a worker", http_requests, 2000, "requests of each"),
        "flood": Scenario("lag of other DAGs beside one with very many tasks", flood, 50_000, "tasks at once", 20),
        "endurance": Scenario("what grows in two hours of `serve`", endurance, 200, "tasks/s", 7200, 8000),
        "engine-dask": _engine(DASK),
        "engine-celery": _engine(CELERY),
        "engine-kubernetes": _engine(KUBERNETES),
        "gates": Scenario("calls and memory a task, as CI counts them", gates, 10, "runs of each"),
        "memory-1000": Scenario("memory of `serve`, idle and under load", memory, 1000, "DAGs"),
        "warm": Scenario("DAG files imported before they are due", warm, 50, "files", 120, 1800),
        "ready": Scenario("start of `serve` on its embedded database", ready, 5, "starts", 60),
        "scaling": Scenario(
            "what 1, 2, 4 and 8 schedulers of one machine share, and a model for more cores",
            scaling,
            1000,
            "DAGs",
            300,
            3600,
        ),
        **{f"schedulers-{count}": _fleet(count) for count in (1, 2, 3)},
    }
)

# What `--all` runs, as arguments: first the rows with a budget (docs/benchmarks.md), then the rest.
EVERYTHING: Final = (
    ("chain-200",),
    ("chain-steps",),
    ("http-requests",),
    ("gates",),
    ("parallel-500x10",),
    ("parallel-5000x10",),
    ("parallel-500x10", "--executor", "local", "--callable", "sync"),
    ("parallel-5000x10", "--executor", "local", "--callable", "sync"),
    ("idle-5000",),
    ("history-1m",),
    ("materialise-1m",),
    ("mapped-10000",),
    ("api-1m",),
    ("api-load",),
    ("triggers",),
    ("jobs-1m",),
    ("memory-1000",),
    ("takeover",),
    ("parse-1000",),
    ("airflow-names",),
    ("ready",),
    ("warm",),
    ("pool-5",),
    ("herd-20000",),
    ("sustained",),
    ("flood",),
    ("engine-dask",),
    ("engine-celery",),
    ("engine-kubernetes",),
    ("schedulers-1",),
    ("schedulers-2",),
    ("schedulers-3",),
)
