"""The independent checker: were the promises kept? It shares no code with the scheduler.

It judges a `History`: what a campaign planned, the rows of the database and every change of them, and what
the tasks wrote down themselves. A rule is a function that yields one sentence for each violation; `check` asks
them all. Instants are seconds of
CLOCK_MONOTONIC. Source: the semantics reference, sections 2.3 and 35.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from typing import NamedTuple


class TaskKey(NamedTuple):
    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1

    def __str__(self) -> str:
        return f"{self.dag_id}/{self.run_id}/{self.task_id}" + (f"[{self.map_index}]" if self.map_index >= 0 else "")


@dataclass(frozen=True)
class TaskPlan:
    upstream: tuple[str, ...] = ()
    pool: str = "default_pool"
    slots: int = 1
    limit: int | None = None  # max_active_tis_per_dag
    effects: frozenset[str] = frozenset()  # what a try that succeeds has changed, once each


@dataclass(frozen=True)
class DagPlan:
    """What is to happen: `count` intervals of length `step` from `first` on, every task once in each."""

    tasks: Mapping[str, TaskPlan]
    first: datetime
    step: timedelta
    count: int
    max_active_runs: int
    max_active_tasks: int


class Run(NamedTuple):
    dag_id: str
    run_id: str
    state: str
    logical_date: datetime | None
    interval_start: datetime | None
    interval_end: datetime | None


class Instance(NamedTuple):
    task: TaskKey
    state: str | None
    try_number: int
    losses: int = 0
    reason: str | None = None


class Change(NamedTuple):
    """A task instance's row was changed. `order` grows; `transaction` groups what was committed together."""

    order: int
    transaction: int
    at: float
    task: TaskKey
    old: str | None
    new: str | None
    old_try: int
    new_try: int


class RunChange(NamedTuple):
    """A run's row was inserted (`old` is None) or changed."""

    order: int
    transaction: int
    at: float
    dag_id: str
    run_id: str
    old: str | None
    new: str


class PoolUse(NamedTuple):
    name: str
    used: int
    slots: int  # -1: infinite


class Span(NamedTuple):
    """An attempt as its process wrote it down. `last` is its last sign of life, `outcome` None if it died."""

    task: TaskKey
    try_number: int
    pid: int
    scheduler: str
    start: float
    last: float
    outcome: str | None  # done, failed, stopped


class Beat(NamedTuple):
    """A process that an attempt started and left behind, and its last sign of life."""

    task: TaskKey
    try_number: int
    pid: int
    last: float


class Effect(NamedTuple):
    """A try has changed something of this kind, so many times."""

    task: TaskKey
    try_number: int
    kind: str
    times: int


class Freeze(NamedTuple):
    """A process could not know what became of its attempts, from one instant to the other: it stood still."""

    pid: int
    start: float
    end: float


@dataclass
class History:
    plans: dict[str, DagPlan] = field(default_factory=dict)
    pools: dict[str, int] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    instances: list[Instance] = field(default_factory=list)
    lost_tries: Counter[TaskKey] = field(default_factory=Counter)  # rows of task_try with state lost
    changes: list[Change] = field(default_factory=list)
    run_changes: list[RunChange] = field(default_factory=list)
    pool_uses: list[PoolUse] = field(default_factory=list)  # every value that was stored
    spans: list[Span] = field(default_factory=list)
    beats: list[Beat] = field(default_factory=list)
    freezes: list[Freeze] = field(default_factory=list)
    awakening: float = 1.0  # seconds within which a process must have ended its attempts when a freeze is over
    final_pools: list[PoolUse] = field(default_factory=list)
    dead_rows: list[str] = field(default_factory=list)  # rows that name an incarnation which is over
    snapshots: list[str] = field(default_factory=list)  # rows that disagreed within one snapshot
    drift: int = 0  # differences between memory and rows that the services counted
    survivors: list[str] = field(default_factory=list)  # processes that outlived what they belong to
    effects: list[Effect] = field(default_factory=list)
    failed_tries: list[str] = field(default_factory=list)  # that were not to fail, with their reasons


class Violation(NamedTuple):
    rule: str
    what: str


Rule = Callable[[History], Iterable[str]]

LINGER = 3.0  # seconds after the last word of an attempt in which what it left behind must have ended
MOST_LOSSES = 3  # in a row: then a task fails and says so
HOLDING = frozenset({"queued", "running", "restarting", "shutdown"})
FINISHED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})

# Between two commits a row may take several steps of the table in section 2.3 at once; these are the pairs that
# can be seen for tasks that nobody clears, marks, defers or branches around.
LEGAL: frozenset[tuple[str | None, str | None]] = frozenset(
    {
        *((None, new) for new in ("scheduled", "queued", "upstream_failed")),
        ("scheduled", "queued"),
        *(("queued", new) for new in ("running", "success", "failed", "up_for_retry", None)),
        *(("running", new) for new in ("success", "failed", "up_for_retry", None)),
        *((lost, new) for lost in ("queued", "running") for new in ("scheduled", "queued")),
        ("up_for_retry", "scheduled"),
        ("up_for_retry", "queued"),
    }
)
NEXT_TRY = frozenset({(old, new) for old, new in LEGAL if new in ("scheduled", "queued") and old != "scheduled"})


def check(history: History) -> list[Violation]:
    """Every violation of every rule; empty when all promises were kept."""
    seen = without_frozen(history)
    return [Violation(name, what) for name, rule in RULES.items() for what in rule(seen)]


def without_frozen(history: History) -> History:
    """The history without what attempts did that were frozen, stored as lost, and ended right after waking up.

    Nobody can end what is frozen, and a thread that wakes up runs before it can be told that it is too late. A
    scheduler that was usurped counts as frozen until that is known: its attempts may end in between.
    """
    beats = [beat for beat in history.beats if not _just_woken(history, beat)]
    return replace(history, spans=list(_until_frozen(history, _lost_at(history))), beats=beats)


def _lost_at(history: History) -> dict[tuple[TaskKey, int], float]:
    """When each attempt was stored as lost that was."""
    return {
        (change.task, change.old_try): change.at
        for change in history.changes
        if change.old in HOLDING and (change.new is None or change.new_try > change.old_try)
    }


def _just_woken(history: History, beat: Beat) -> bool:
    return any(
        freeze.pid == beat.pid and freeze.start <= beat.last <= freeze.end + history.awakening
        for freeze in history.freezes
    )


def _until_frozen(history: History, lost: Container[tuple[TaskKey, int]]) -> Iterator[Span]:
    for span in history.spans:
        begun = [freeze for freeze in history.freezes if freeze.pid == span.pid and span.start < freeze.end]
        for freeze in begun:
            over = max(span.start, freeze.start)
            if (span.task, span.try_number) in lost and freeze.start <= span.last <= freeze.end + history.awakening:
                span = span._replace(last=over, outcome=None)
        yield span


def intervals_complete_none_twice(history: History) -> Iterator[str]:
    found = defaultdict[str, list[Run]](list)
    for run in history.runs:
        found[run.dag_id].append(run)
    for dag_id, plan in history.plans.items():
        planned = Counter(plan.first + number * plan.step for number in range(plan.count))
        dates = Counter(run.logical_date for run in found[dag_id])
        for date in planned:
            if dates[date] != 1:
                yield f"{dag_id} has {dates[date]} runs for {date}, expected one"
        yield from (f"{dag_id} has a run for {date}, which was not planned" for date in dates if date not in planned)
        for run in found[dag_id]:
            if run.logical_date is not None and (run.interval_start, run.interval_end) != (
                run.logical_date,
                run.logical_date + plan.step,
            ):
                yield f"{dag_id}/{run.run_id} has the interval {run.interval_start} to {run.interval_end}"


def no_run_lost(history: History) -> Iterator[str]:
    for run in history.runs:
        if run.state not in ("success", "failed"):
            yield f"{run.dag_id}/{run.run_id} is {run.state} at the end"


def no_task_lost(history: History) -> Iterator[str]:
    there = {instance.task for instance in history.instances}
    for run in history.runs:
        for task_id in history.plans[run.dag_id].tasks:
            if TaskKey(run.dag_id, run.run_id, task_id) not in there:
                yield f"{run.dag_id}/{run.run_id}/{task_id} has no row"
    for instance in history.instances:
        if instance.state not in FINISHED:
            yield f"{instance.task} is {instance.state} at the end"


def failures_have_a_cause(history: History) -> Iterator[str]:
    """A task may fail only when it was lost too often in a row; what is behind it, and its run, fail with it."""
    failed = set[tuple[str, str]]()
    states = {instance.task: instance.state for instance in history.instances}
    for instance in history.instances:
        task = instance.task
        if instance.state == "failed":
            failed.add(task[:2])
            seen = history.lost_tries[task]
            if (
                instance.losses < MOST_LOSSES
                or seen < MOST_LOSSES - 1
                or not (instance.reason or "").startswith("lost")
            ):
                yield f"{task} failed ({instance.reason}) with {instance.losses} losses, {seen} of them kept as tries"
        elif instance.state == "upstream_failed":
            upstream = history.plans[task.dag_id].tasks[task.task_id].upstream
            if not any(states[task._replace(task_id=up)] in ("failed", "upstream_failed") for up in upstream):
                yield f"{task} is upstream_failed, its upstream tasks are not"
        elif instance.state != "success":
            yield f"{task} is {instance.state}"
    for run in history.runs:
        if run.state == "failed" and (run.dag_id, run.run_id) not in failed:
            yield f"{run.dag_id}/{run.run_id} failed without a failed task"
        if run.state == "success" and (run.dag_id, run.run_id) in failed:
            yield f"{run.dag_id}/{run.run_id} succeeded with a failed task"


def one_process_per_attempt(history: History) -> Iterator[str]:
    attempts = defaultdict[tuple[TaskKey, int], list[Span]](list)
    for span in history.spans:
        attempts[span.task, span.try_number].append(span)
    for (task, number), spans in attempts.items():
        if len(spans) > 1:
            yield f"try {number} of {task} ran {len(spans)} times: pids {sorted(span.pid for span in spans)}"
    for instance in history.instances:
        if instance.state == "success":
            spans = attempts.get((instance.task, instance.try_number), [])
            if [span.outcome for span in spans] != ["done"]:
                yield f"{instance.task} succeeded in try {instance.try_number}, which never ended: {spans}"


def attempts_never_overlap(history: History) -> Iterator[str]:
    for task, spans in _by_task(history.spans).items():
        for first, second in pairwise(spans):
            if second.start < first.last:
                yield (
                    f"{task}: try {second.try_number} ({second.scheduler}) began {first.last - second.start:.3f} s "
                    f"before the last sign of life of try {first.try_number} ({first.scheduler})"
                )


def nothing_lives_longer_than_its_attempt(history: History) -> Iterator[str]:
    """What attempts left behind ends with them, and before the next try begins."""
    by_task = _by_task(history.spans)
    for task, number, pid, last in history.beats:
        for span in by_task.get(task, []):
            if span.try_number == number and span.outcome is not None and last > span.last + LINGER:
                yield f"{task}: pid {pid} of try {number} lived {last - span.last:.3f} s longer than the try"
            elif span.try_number > number and last > span.start:
                yield f"{task}: pid {pid} of try {number} lived {last - span.start:.3f} s into try {span.try_number}"


def tries_run_in_order(history: History) -> Iterator[str]:
    for task, spans in _by_task(history.spans).items():
        numbers = [span.try_number for span in spans]
        if numbers != sorted(numbers):
            yield f"{task} ran its tries in the order {numbers}"


def legal_transitions(history: History) -> Iterator[str]:
    last: dict[TaskKey, Change] = {}
    for change in sorted(history.changes):
        task, before = change.task, last.get(change.task)
        expected = (before.new, before.new_try) if before is not None else (None, 0)
        if (change.old, change.old_try) != expected:
            yield f"{task} was {expected} and then changed from {(change.old, change.old_try)}"
        grows = int((change.old, change.new) in NEXT_TRY)
        if (change.old, change.new) not in LEGAL and change.old != change.new:
            yield f"{task} went from {change.old} to {change.new}"
        elif change.new_try != change.old_try + grows and not _stays(change):
            yield f"{task} went from {change.old}, try {change.old_try} to {change.new}, try {change.new_try}"
        last[task] = change
    for instance in history.instances:
        final = last.get(instance.task)
        if final is not None and (final.new, final.new_try) != (instance.state, instance.try_number):
            yield f"{instance.task} is {instance.state}, its last change was to {final.new}"


def _stays(change: Change) -> bool:
    """Same state, next try: lost and queued again (or waiting again) in one commit."""
    return change.old == change.new and change.new in HOLDING and change.new_try in (change.old_try, change.old_try + 1)


def success_is_final(history: History) -> Iterator[str]:
    tries: dict[TaskKey, int] = {}
    for change in sorted(history.changes):
        if change.old == "success":
            yield f"{change.task} was changed from success to {change.new}"
        if change.new == "success":
            tries[change.task] = change.new_try
    for span in history.spans:
        if span.try_number > tries.get(span.task, span.try_number):
            yield f"{span.task} succeeded in try {tries[span.task]} and was run again as try {span.try_number}"


def limits_hold_while_tasks_run(history: History) -> Iterator[str]:
    """By what tasks wrote: a sweep over starts and last signs of life, for pools, runs' and tasks' limits."""
    uses = defaultdict[tuple[str, ...], list[tuple[float, float, int]]](list)
    limits: dict[tuple[str, ...], int] = {}
    for span in history.spans:
        dag_id, run_id, task_id, _ = span.task
        dag = history.plans[dag_id]
        plan = dag.tasks[task_id]
        held: list[tuple[tuple[str, ...], int, int | None]] = [
            (("pool", plan.pool), plan.slots, history.pools.get(plan.pool)),
            (("tasks of run", dag_id, run_id), 1, dag.max_active_tasks),
            (("task", dag_id, task_id), 1, plan.limit),
        ]
        for what, amount, limit in held:
            if limit is not None and limit >= 0:
                limits[what] = limit
                uses[what].append((span.start, span.last, amount))
    for what, intervals in uses.items():
        peak = _peak(intervals)
        if peak > limits[what]:
            yield f"{' '.join(what)}: {peak} in use at one instant, the limit is {limits[what]}{_outlived(history)}"


def _outlived(history: History) -> str:
    """What tells attempts that ended too late from those that began too early."""
    lost = _lost_at(history)
    late = [
        (span.last - at, span.scheduler)
        for span in history.spans
        if (at := lost.get((span.task, span.try_number))) is not None and span.last > at
    ]
    if not late:
        return ""
    seconds, scheduler = max(late)
    return f"; {len(late)} attempts lived on after they were stored as lost, one of {scheduler} for {seconds:.2f} s"


def peak_use(history: History, pool: str) -> int:
    """The most slots of `pool` that tasks used at one instant, by what they wrote."""
    return _peak(
        (span.start, span.last, plan.slots)
        for span in history.spans
        if (plan := history.plans[span.task.dag_id].tasks[span.task.task_id]).pool == pool
    )


def _peak(intervals: Iterable[tuple[float, float, int]]) -> int:
    events = sorted(
        event for start, last, amount in intervals for event in ((start, amount), (max(last, start), -amount))
    )
    now = most = 0
    for _, amount in events:  # at one instant ends come first: they sort lower
        now += amount
        most = max(most, now)
    return most


def limits_hold_in_every_commit(history: History) -> Iterator[str]:
    """By rows: what holds slots after each transaction, for each run, task and DAG.

    Limits of runs without an exception: no task here looks at the run before, so no run waits for another one.
    """
    run_of = {(run.dag_id, run.run_id) for run in history.runs}
    active, by_task = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    in_order = sorted(history.changes, key=lambda change: (change.task.dag_id, change.order))  # a DAG has one writer
    for _, group in groupby(in_order, key=lambda change: (change.task.dag_id, change.transaction)):
        touched = list(group)
        for change in touched:
            step = int(change.new in HOLDING) - int(change.old in HOLDING)
            active[change.task[:2]] += step
            by_task[change.task.dag_id, change.task.task_id] += step
        for run in {change.task[:2] for change in touched} & run_of:
            limit = history.plans[run[0]].max_active_tasks
            if active[run] > limit:
                yield f"{run[0]}/{run[1]} had {active[run]} active tasks, max_active_tasks is {limit}"
        for dag_id, task_id in {(change.task.dag_id, change.task.task_id) for change in touched}:
            most = history.plans[dag_id].tasks[task_id].limit
            if most is not None and by_task[dag_id, task_id] > most:
                yield f"{dag_id}/{task_id} was active {by_task[dag_id, task_id]} times, its limit is {most}"
    running = Counter[str]()
    run_order = sorted(history.run_changes, key=lambda change: (change.dag_id, change.order))
    for _, runs in groupby(run_order, key=lambda change: (change.dag_id, change.transaction)):
        changed = list(runs)
        for each in changed:
            running[each.dag_id] += int(each.new == "running") - int(each.old == "running")
        for dag_id in {each.dag_id for each in changed}:
            if running[dag_id] > history.plans[dag_id].max_active_runs:
                limit = history.plans[dag_id].max_active_runs
                yield f"{dag_id} had {running[dag_id]} running runs, its limit is {limit}"
    for use in history.pool_uses:
        if use.used < 0 or 0 <= use.slots < use.used:
            yield f"pool {use.name} was stored with {use.used} of {use.slots} slots used"


def upstream_comes_first(history: History) -> Iterator[str]:
    accepted = {(each.task, each.try_number) for each in history.instances if each.state == "success"}
    done = {span.task: span.last for span in history.spans if (span.task, span.try_number) in accepted}
    for span in history.spans:
        for upstream in history.plans[span.task.dag_id].tasks[span.task.task_id].upstream:
            end = done.get(span.task._replace(task_id=upstream))
            if end is None or end > span.start:
                yield f"{span.task} began before {upstream} had ended"


def nothing_is_left_behind(history: History) -> Iterator[str]:
    yield from history.dead_rows
    yield from (f"{process} outlived what it belongs to" for process in history.survivors)
    for pool in history.final_pools:
        if pool.used:
            yield f"pool {pool.name} has {pool.used} slots used at the end"


def rows_agree_at_every_moment(history: History) -> Iterator[str]:
    yield from history.snapshots


def memory_equals_rows(history: History) -> Iterator[str]:
    if history.drift:
        yield f"the services counted {history.drift} differences between memory and rows"


def what_tasks_change_is_changed_once(history: History) -> Iterator[str]:
    """At most once by each try, exactly once by one that succeeds."""
    times = Counter({(effect.task, effect.try_number, effect.kind): effect.times for effect in history.effects})
    for (task, number, kind), count in times.items():
        if count > 1:
            yield f"{task} try {number}: {kind} {count} times"
    for task, state, number, *_ in history.instances:
        for kind in history.plans[task.dag_id].tasks[task.task_id].effects if state == "success" else ():
            if not times[task, number, kind]:
                yield f"{task} try {number} succeeded without: {kind}"


def tries_fail_only_on_purpose(history: History) -> Iterator[str]:
    yield from history.failed_tries


def _by_task(spans: Sequence[Span]) -> dict[TaskKey, list[Span]]:
    found = defaultdict[TaskKey, list[Span]](list)
    for span in sorted(spans, key=lambda span: span.start):
        found[span.task].append(span)
    return found


RULES: Mapping[str, Rule] = {
    rule.__name__: rule
    for rule in (
        intervals_complete_none_twice,
        no_run_lost,
        no_task_lost,
        failures_have_a_cause,
        one_process_per_attempt,
        attempts_never_overlap,
        nothing_lives_longer_than_its_attempt,
        tries_run_in_order,
        legal_transitions,
        success_is_final,
        limits_hold_while_tasks_run,
        limits_hold_in_every_commit,
        upstream_comes_first,
        nothing_is_left_behind,
        rows_agree_at_every_moment,
        memory_equals_rows,
        what_tasks_change_is_changed_once,
        tries_fail_only_on_purpose,
    )
}
