"""A shape's result for people (table), for machines (json) and for docs/benchmarks.md (markdown), and its figures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from benchmarks.figures import Figure, Finding
from benchmarks.lag import Lag
from benchmarks.measure import Usages


@dataclass(frozen=True)
class Result:
    """One run of one shape. Seconds, bytes; `problems` is empty when the verification passed."""

    shape: str
    executor: str
    callable: str
    at: str  # UTC, ISO 8601
    machine: str
    postgres: str
    tasks: int
    makespan: float  # from the creation of the first run to the end of the last body
    creation: float  # from the creation of the first run to that of the last one
    lag: Lag
    commit_p50: float  # of durable commits of one row, before and after the shape
    statements: int
    wal_bytes: int
    hot_share: float  # of the updates of task instances, those that touched no index
    scans: Mapping[str, int]  # sequential scans of large tables, starting the service included
    most_at_once: int  # bodies at one instant
    stall: float  # the longest time for which the event loop did not turn
    usage: Usages
    problems: tuple[str, ...]

    @property
    def tasks_per_second(self) -> float:
        return self.tasks / self.makespan

    @property
    def statements_per_task(self) -> float:
        return self.statements / self.tasks

    @property
    def wal_bytes_per_task(self) -> float:
        return self.wal_bytes / self.tasks

    @property
    def scheduler_microseconds(self) -> float:
        """Processor time of the scheduler's process for each task."""
        return self.usage.scheduler.cpu_seconds / self.tasks * 1e6

    @property
    def lag_p50_in_commits(self) -> float:
        return self.lag.p50 / self.commit_p50

    @property
    def lag_p99_in_commits(self) -> float:
        return self.lag.p99 / self.commit_p50


def as_json(result: Result) -> str:
    derived = (
        "tasks_per_second",
        "statements_per_task",
        "wal_bytes_per_task",
        "scheduler_microseconds",
        "lag_p50_in_commits",
        "lag_p99_in_commits",
    )
    return json.dumps({**asdict(result), **{name: getattr(result, name) for name in derived}}, indent=2)


def as_table(result: Result) -> str:
    """Aligned lines: what, value."""
    lag, usage = result.lag, result.usage
    cpu = [f"{u.cpu_seconds:.2f} s" for u in (usage.scheduler, usage.workers, usage.postgres)]
    lines = [
        ("shape", f"{result.shape}, {result.executor} executor, {result.callable} callables"),
        ("machine", result.machine),
        ("database", result.postgres),
        ("tasks", f"{result.tasks:,}"),
        ("makespan", f"{result.makespan:.3f} s, all runs created within {result.creation:.3f} s"),
        ("throughput", f"{result.tasks_per_second:,.0f} tasks/s"),
        ("task lag", f"p50 {_ms(lag.p50)}, p99 {_ms(lag.p99)}, mean {_ms(lag.mean)}, total {lag.total:.3f} s"),
        ("one durable commit", f"p50 {_ms(result.commit_p50)}"),
        ("lag in commits", f"p50 {result.lag_p50_in_commits:.1f}, p99 {result.lag_p99_in_commits:.1f}"),
        ("statements", f"{result.statements:,}, {result.statements_per_task:.3f} a task"),
        ("WAL", f"{result.wal_bytes:,} bytes, {result.wal_bytes_per_task:,.0f} a task"),
        ("heap-only updates", f"{result.hot_share:.1%}"),
        ("processor time", f"scheduler {cpu[0]}, workers {cpu[1]}, PostgreSQL {cpu[2]}"),
        (
            "",
            f"scheduler {result.scheduler_microseconds:,.0f} us a task; longest stall of its loop {_ms(result.stall)}",
        ),
        ("peak memory", f"scheduler {_mib(usage.scheduler.peak_bytes)}, workers {_mib(usage.workers.peak_bytes)}"),
        ("verification", "passed" if not result.problems else "FAILED"),
    ]
    judged = [
        (figure.what, f"{figure.shown}, budget {figure.budget}: {figure.told}")
        for figure in figures_of(result)
        if figure.verdict
    ]
    text = "\n".join(f"{what:<20}{value}" for what, value in [*lines[:-1], *judged, lines[-1]])
    return "\n".join([text, *(f"  {problem}" for problem in result.problems)])


def figures_of(result: Result) -> list[Figure]:
    """What is compared and judged. The budgets (docs/benchmarks.md, "Budgets") are for the shapes that it names."""
    how = result.executor, result.callable
    chain = result.shape.startswith("chain-") and how == ("inline", "async")
    load = result.shape.startswith("parallel-")
    least = {("inline", "async"): 15_000, ("local", "sync"): 5_000}.get(how) if load else None
    figures = [
        Figure("throughput", result.tasks_per_second, "tasks/s", least=least),
        Figure("task lag p50", result.lag_p50_in_commits, "commits", most=3 if chain else None),
        Figure("task lag p99", result.lag_p99_in_commits, "commits", most=10 if chain else None),
        Figure("statements a task", result.statements_per_task, "", most=0.1 if load else None),
        Figure("WAL a task", result.wal_bytes_per_task, "bytes", most=700 if load else None),
        Figure("heap-only updates", result.hot_share * 100, "%"),
        Figure("scheduler's processor time a task", result.scheduler_microseconds, "us"),
        Figure("longest stall of the loop", result.stall * 1000, "ms"),
    ]
    if result.shape.startswith("pool-"):
        figures.insert(0, Figure("tasks at one instant", result.most_at_once, "", most=int(result.shape[5:])))
    if result.shape.startswith("herd-"):
        figures.insert(0, Figure("all runs created within", result.creation, "s"))
    return figures


def finding_of(result: Result) -> Finding:
    """The result as one of many benchmarks has it."""
    about = f"{result.tasks:,} tasks, {result.executor} executor, {result.callable} callables, {result.postgres}"
    return Finding(result.shape, about, result.machine, figures_of(result), result.problems)


_COLUMNS = (
    ("shape", "---"),
    ("executor", "---"),
    ("callables", "---"),
    ("tasks/s", "---:"),
    ("makespan s", "---:"),
    ("lag p50 ms", "---:"),
    ("lag p99 ms", "---:"),
    ("commit p50 ms", "---:"),
    ("lag p50 in commits", "---:"),
    ("statements/task", "---:"),
    ("WAL bytes/task", "---:"),
    ("CPU s: scheduler, workers, PostgreSQL", "---"),
    ("peak MiB: scheduler, workers", "---"),
)
MARKDOWN_HEAD = "\n".join(f"| {' | '.join(line)} |" for line in zip(*_COLUMNS, strict=True))


def as_markdown(result: Result) -> str:
    """One row under `MARKDOWN_HEAD`. A result that failed its verification has no row."""
    if result.problems:
        raise ValueError(f"{result.shape} failed its verification: {'; '.join(result.problems)}")
    usage = result.usage
    cells = [
        result.shape,
        result.executor,
        result.callable,
        f"{result.tasks_per_second:,.0f}",
        f"{result.makespan:.3f}",
        f"{result.lag.p50 * 1000:.2f}",
        f"{result.lag.p99 * 1000:.2f}",
        f"{result.commit_p50 * 1000:.3f}",
        f"{result.lag_p50_in_commits:.1f}",
        f"{result.statements_per_task:.3f}",
        f"{result.wal_bytes_per_task:,.0f}",
        ", ".join(f"{u.cpu_seconds:.2f}" for u in (usage.scheduler, usage.workers, usage.postgres)),
        ", ".join(f"{u.peak_bytes / 2**20:.0f}" for u in (usage.scheduler, usage.workers)),
    ]
    return f"| {' | '.join(cells)} |"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"


def _mib(size: int) -> str:
    return f"{size / 2**20:.0f} MiB"
