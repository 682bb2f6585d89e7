"""The independent checker of simulated histories: what must hold at every commit, at every start, and in the end.

It reads a `History` and the plan that it was made from, and knows nothing of how schedulers work.
Source: the semantics reference, section 35; docs/architecture.md.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from aiosched.core.slots.rates import parse_rate
from aiosched.core.values.ids import as_incomplete
from tests.simulation.checker_backfills import Backfills
from tests.simulation.checker_limits import RunLimits
from tests.simulation.checker_outcomes import Outcomes
from tests.simulation.checker_pasts import Pasts
from tests.simulation.checker_quarantine import Quarantine
from tests.simulation.checker_waits import Waits
from tests.simulation.dialects import NOVELTY
from tests.simulation.grouping import counterparts
from tests.simulation.history import (
    Attempt,
    Began,
    CallbackRan,
    Commit,
    Ended,
    Fault,
    Fired,
    Handed,
    History,
    Row,
    RowChange,
    SchedulerRemoved,
)
from tests.simulation.store import EPOCH
from tests.simulation.workload import FAULTS_END, Plan, rows_of

HOLDING = frozenset({"queued", "running", "restarting", "shutdown"})
FINISHED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
RUN_OVER = frozenset({"success", "failed"})
NOBODYS = 5.0  # seconds in which a free partition finds an owner when faults are over: looks and pauses take up to two
_OWNED = (
    "task_instance",
    "dag_run",
    "task_try",
    "xcom",
    "deferred_trigger",
    "deferral",
)  # tables that only the owner of a partition writes

Instance = tuple[int, int, int]


@dataclass
class Checker:
    """Walks through a history; `found` are the violations."""

    plan: Plan
    history: History
    found: list[str] = field(default_factory=list)
    rows: dict[str, dict[Any, Row]] = field(default_factory=lambda: defaultdict(dict))
    free: dict[int, float] = field(default_factory=dict)  # partitions without an owner: since when
    handed: dict[Attempt, Handed] = field(default_factory=dict)
    working: dict[Instance, list[Began]] = field(default_factory=lambda: defaultdict(list))
    again: set[Attempt] = field(default_factory=set)  # attempts that asked to be called again
    succeeded: dict[Instance, list[Attempt]] = field(default_factory=lambda: defaultdict(list))
    removed: dict[int, SchedulerRemoved] = field(default_factory=dict)
    callbacks: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    ran: Counter[int] = field(default_factory=Counter)
    reopened: Counter[Instance] = field(default_factory=Counter)
    started: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))  # instants of starts, by pool
    at: float = 0.0

    def __post_init__(self) -> None:
        self.specs = {spec.dag_id: spec for spec in self.plan.specs}
        self.pasts, self.waits = Pasts(self), Waits(self)
        self.backfills, self.outcomes, self.run_limits = Backfills(self), Outcomes(self), RunLimits(self)
        self.quarantine = Quarantine(self)

    def say(self, rule: str, what: str) -> None:
        self.found.append(f"[{rule}] at {self.at:.6f}: {what}")

    def check(self) -> list[str]:
        for table, rows in rows_of(self.plan.specs).items():
            self.rows[table].update(rows)
        self.free = dict.fromkeys(self.rows["partition_lease"], 0.0)
        for event in self.history.events:
            self.at = event.at
            match event:
                case Commit():
                    self._commit(event)
                case Handed(trigger=None):
                    self._handed(event)
                case Handed():
                    self.waits.handed(event)
                case Fired():
                    self.waits.fired(event)
                case Began():
                    self.waits.began(event)
                    self._began(event)
                case Ended():
                    self.waits.ended(event)
                    self._ended(event)
                case CallbackRan():
                    self.ran[event.number] += 1
                case SchedulerRemoved():
                    self.removed[event.incarnation] = event
                case Fault(what="kill"):
                    self.waits.killed(event.node)
                    for working in self.working.values():
                        working[:] = [began for began in working if began.node != event.node]
        self._end()
        return self.found

    # -- what a row is about

    def task(self, instance: Instance) -> Any:
        spec = self.spec(instance[0])
        return spec.tasks[instance[1]]

    def spec(self, run: int) -> Any:
        return self.specs[self.rows["dag_run"][run]["dag_id"]]

    def name(self, instance: Instance) -> str:
        run = self.rows["dag_run"][instance[0]]
        which = "" if instance[2] < 0 else f"[{instance[2]}]"
        return f"{run['dag_id']}/{run['run_id']}/{self.task(instance).task_id}{which}"

    def owner(self, run: int) -> int | None:
        row = self.rows["dag_run"].get(run)
        return None if row is None else self.rows["partition_lease"][_partition(row)]["incarnation"]

    # -- commits

    def _commit(self, commit: Commit) -> None:
        owners = {p: row["incarnation"] for p, row in self.rows["partition_lease"].items()}
        living = set(self.rows["scheduler"])
        for change in commit.changes:
            table = self.rows[change.table]
            if change.new is None:
                table.pop(change.key, None)
            else:
                table[change.key] = change.new
        self.pasts.commit(commit)
        self.waits.commit(commit)
        self.backfills.commit(commit)
        self.run_limits.commit(commit)
        self.quarantine.commit(commit)
        for change in commit.changes:
            self._only_the_owner_writes(commit, change, owners, living)
            match change.table:
                case "task_instance":
                    self._instance(change)
                case "dag_run":
                    self._run(change)
                case "request":
                    self._command(change)
                case "callback_outbox" if change.old is None and change.new is not None:
                    new = change.new
                    self.callbacks[new["kind"], new["run_id"], new["task_id"], new["map_index"], new["try_number"]] += 1
                case "partition_lease":
                    self._lease(change, living)
        self._check_owners(commit)
        self._starts(commit)
        if any(change.table in ("task_instance", "dag_run", "pool") for change in commit.changes):
            self._limits()

    def _only_the_owner_writes(
        self, commit: Commit, change: RowChange, owners: dict[int, int | None], living: set[int]
    ) -> None:
        if change.table not in _OWNED:
            return
        run = change.key if change.table == "dag_run" else change.key[0]
        row = self.rows["dag_run"].get(run)
        if row is None:
            return
        owner = owners[_partition(row)]
        if commit.fence is None or commit.fence != owner:
            self.say("owner", f"{change.table} {change.key} was written by {commit.fence}, its partition is {owner}'s")
        elif commit.fence not in living:
            self.say("fence", f"{change.table} {change.key} was written by {commit.fence}, who was taken over")

    def _lease(self, change: RowChange, living: set[int]) -> None:
        assert change.old is not None
        assert change.new is not None
        old, new = change.old["incarnation"], change.new["incarnation"]
        if old is not None and new is not None:
            self.say("lease", f"partition {change.key} went from {old} to {new} without being free")
        if new is not None and new not in living:
            self.say("lease", f"partition {change.key} went to {new}, who is not there")

    def _check_owners(self, commit: Commit) -> None:
        """A partition that was given away, or belonged to a dead scheduler, has an owner again soon."""
        late = []
        for change in commit.changes:
            if change.table == "partition_lease" and change.new is not None:
                if change.new["incarnation"] is None:
                    self.free[change.key] = self.at
                elif self.at - max(self.free.pop(change.key, self.at), FAULTS_END) > NOBODYS:
                    late.append(change.key)
        if late:
            self.say("nobody's", f"partitions {late} were without an owner for more than {NOBODYS:.0f} seconds")

    def _instance(self, change: RowChange) -> None:
        new, key = change.new, change.key
        if new is None:
            return
        if change.old is None:
            self._new_instance(key, new)
            return
        old, before, after = change.old, change.old["state"], new["state"]
        step = new["try_number"] - old["try_number"]
        if not 0 <= step <= 1 + self._clears(key[0]):  # what is cleared before it is stored takes a try, too
            self.say("tries", f"{self.name(key)} went from try {old['try_number']} to {new['try_number']}")
        if before == after:
            return
        move = f"{self.name(key)} went from {before} to {after}"
        if before in FINISHED and not (before == "removed" and key[2] >= 0):  # map indexes come back with their values
            self.reopened[key] += 1
            if self.reopened[key] > self._clears(key[0]):
                self.say("final", f"{move}, and nobody has cleared it")
        if after == "queued":
            called_again = before in HOLDING and (*key, new["try_number"]) in self.again  # it was due again at once
            if step == 0 and before not in ("scheduled", "up_for_reschedule", "deferred") and not called_again:
                self.say("transition", f"{move} without a new try")
            self._dependencies(key)
        if after == "deferred" and before not in HOLDING:
            self._dependencies(key)
        if after == "running" and (before != "queued" or step):
            self.say("transition", move)
        if after == "success" and (before not in ("queued", "running") or step):
            self.say("transition", move)
        if after in ("up_for_retry", "up_for_reschedule") and (before not in HOLDING or step):
            self.say("transition", move)

    def _new_instance(self, key: Instance, row: Row) -> None:
        run, task, map_index = key
        if map_index >= 0 and (run, task, -1) in self.rows["task_instance"]:
            self.say("mapping", f"{self.name(key)} is there beside the task that was to be expanded")
        if map_index > 0 and (run, task, map_index - 1) not in self.rows["task_instance"]:
            self.say("mapping", f"{self.name(key)} is there without the instance before it")
        of = "tasks" if self.task(key).group_id is None else "groups"
        self.history.seen[f"instances of mapped {of}"] += map_index >= 0
        if row["state"] == "queued":
            self._dependencies(key)

    def _clears(self, run: int) -> int:
        """How often people have asked for a run to begin anew."""
        row, count = self.rows["dag_run"][run], 0
        for request in self.rows["request"].values():
            if request["dag_id"] != row["dag_id"]:
                continue
            if request["verb"] == "clear":
                count += row["run_id"] in json.loads(request["args"])["run_ids"]
            elif request["verb"] == "backfill_create":
                count += json.loads(request["args"])["rerun"] != "missing"
        return count

    def _dependencies(self, key: Instance) -> None:
        spec, task = self.spec(key[0]), self.task(key)
        index = {t.task_id: i for i, t in enumerate(spec.tasks)}
        states, ahead = {}, False
        for up in task.upstream:
            there = self._states(key[0], index[up])
            concerned = counterparts(spec, task, key[2], spec.tasks[index[up]], there)
            states[up] = [there[map_index] for map_index in concerned]
            ahead |= any(state not in FINISHED for state in there.values())
        self.history.seen["starts ahead of another index of a group"] += ahead
        every = {state for found in states.values() for state in found}
        if task.trigger_rule == "all_success":
            met = every <= {"success"}
        else:
            met = every <= {"success", "skipped"} and "success" in every
        if not met:
            self.say("dependencies", f"{self.name(key)} is queued while {states}")

    def _states(self, run: int, task: int) -> dict[int, str]:
        """Of the instances of a task, by their indexes; those that were removed are none."""
        rows, states = self.rows["task_instance"], {}
        if (row := rows.get((run, task, -1))) is not None:
            states[-1] = row["state"]
        for map_index in itertools.count():
            if (row := rows.get((run, task, map_index))) is None:
                break
            states[map_index] = row["state"]
        return {map_index: state for map_index, state in states.items() if state != "removed"}

    def _run(self, change: RowChange) -> None:
        new, old = change.new, change.old
        if new is None:
            return
        before, after = (None if old is None else old["state"]), new["state"]
        self.history.seen["runs stored in parts"] += old is None and new["partition"] < 0
        if after == "running" != before:
            there = {key[1] for key, _ in self._instances(change.key)}
            if new["partition"] < 0 or len(there) < len(self.spec(change.key).tasks):
                self.say("parts", f"{new['dag_id']}/{new['run_id']} has started with the tasks {sorted(there)} only")
        if before in RUN_OVER and after != before and not self._clears(change.key):
            self.say("final", f"run {new['dag_id']}/{new['run_id']} went from {before} to {after}")
        if after in RUN_OVER and before != after:
            left = [k for k, r in self._instances(change.key) if r["state"] not in FINISHED]
            if left and not self.backfills.was_cancelled(new):
                self.say("run", f"{new['dag_id']}/{new['run_id']} is {after} with unfinished {left}")

    def _instances(self, run: int) -> Iterator[tuple[Instance, Row]]:
        return ((key, row) for key, row in self.rows["task_instance"].items() if key[0] == run)

    def _command(self, change: RowChange) -> None:
        if change.old is None or change.new is None:
            return
        if change.old["state"] != "waiting":
            self.say("inbox", f"request {change.key} was answered twice: {change.old['state']}, {change.new['state']}")
        if change.new["state"] == "applied" and NOVELTY.keys() & json.loads(change.new["args"]).keys():
            self.say("versions", f"request {change.key} was applied without the option that is unknown here")
        if change.new["state"] == "applied" and change.new["verb"] == "trigger":
            result = json.loads(change.new["result"])
            if result["id"] not in self.rows["dag_run"]:
                self.say("inbox", f"request {change.key} was answered with run {result['id']}, which is not there")

    def _starts(self, commit: Commit) -> None:
        """What starts in a pool with a rate is in its log, by the same commit, and never too much of it in a period."""
        claims: Counter[str] = Counter()
        for _, key, old, new in (change for change in commit.changes if change.table == "task_instance"):
            before = old["queued_at"] if old is not None and old["state"] == "queued" else None
            if new is not None and new["state"] == "queued" and new["queued_at"] != before:
                claims[self.task(key).pool] += 1
        for name, number in claims.items():
            if (rate := self.rows["pool"][name]["rate"]) is None:
                continue
            known, (at, noted) = parse_rate(rate), self.rows["pool"][name]["starts"][-1]
            if noted != number:
                self.say("rate", f"{number} tasks start in {name}, its row says {noted}")
            self.started[name] += [at] * number
            recent = sum(at - start < known.seconds * 1_000_000 for start in self.started[name])
            if recent > known.starts:
                self.say("rate", f"{recent} tasks have started in {name} in {known.seconds} s, {rate} may")

    def _limits(self) -> None:
        """Pools and running tasks."""
        used: Counter[str] = Counter()
        tasks: Counter[str] = Counter()
        for key, row in self.rows["task_instance"].items():
            if row["state"] in HOLDING:
                task = self.task(key)
                used[task.pool] += task.pool_slots
                tasks[self.rows["dag_run"][key[0]]["dag_id"]] += 1
        for name, pool in self.rows["pool"].items():
            if pool["used"] != used[name]:
                self.say("pool", f"{name} says {pool['used']}, its tasks use {used[name]}")
            if used[name] > pool["slots"]:
                self.say("pool", f"{used[name]} slots of {name} are in use, it has {pool['slots']}")
        for spec in self.plan.specs:
            if tasks[spec.dag_id] > spec.max_active_tasks:
                self.say(
                    "limit", f"{tasks[spec.dag_id]} tasks of {spec.dag_id} are active, {spec.max_active_tasks} may"
                )

    # -- processes

    def _handed(self, event: Handed) -> None:
        key, instance = event.attempt, event.attempt[:3]
        row = self.rows["task_instance"].get(instance)
        removed = self.removed.get(event.incarnation)
        if removed is not None and not removed.gone:
            self.say(
                "trust", f"{key} was handed out by {event.incarnation}, whose lease had run out and was taken over"
            )
        as_stored = row is not None and (row["state"], row["try_number"], row["queued_by"]) == (
            "queued", key[3], event.incarnation,
        )  # fmt: skip
        if not as_stored and removed is None:
            self.say("commit first", f"{key} was handed out by {event.incarnation}, the row says {_brief(row)}")
        if key in self.handed and key not in self.again:
            self.say(
                "one process", f"{key} was handed out twice: by {self.handed[key].incarnation} and {event.incarnation}"
            )
        self.again.discard(key)
        self.handed[key] = event

    def _began(self, event: Began) -> None:
        instance = event.attempt[:3]
        for other in self.working[instance]:
            incarnation = self.handed[other.attempt].incarnation
            if incarnation not in self.removed and incarnation in self.rows["scheduler"]:
                self.say(
                    "overlap", f"{event.attempt} began on machine {event.node}, {other.attempt} runs on {other.node}"
                )
        self.working[instance].append(event)

    def _ended(self, event: Ended) -> None:
        instance = event.attempt[:3]
        working = self.working[instance]
        working[:] = [began for began in working if (began.attempt, began.node) != (event.attempt, event.node)]
        if event.outcome in ("rescheduled", "deferred"):
            self.again.add(event.attempt)
        if event.outcome == "success":
            self.succeeded[instance].append(event.attempt)

    # -- the end

    def _end(self) -> None:
        tables = self.history.tables
        for trouble in self.history.troubles:
            self.say("trouble", trouble)
        for difference in self.history.memory:
            self.say("memory", difference)
        for deadlock in self.history.deadlocks:
            self.say("locks", f"deadlock {deadlock}")
        for key, run in tables["dag_run"].items():
            if run["state"] not in RUN_OVER:
                left = {self.task(k).task_id: r["state"] for k, r in self._instances(key)}
                self.say("lost", f"run {run['dag_id']}/{run['run_id']} is {run['state']} for ever: {left}")
            else:
                self.outcomes.check(key, run)
        for name, pool in tables["pool"].items():
            if pool["used"]:
                self.say("pool", f"{pool['used']} slots of {name} are in use by nobody")
        self._fleet_in_the_end()
        self._runs_in_the_end()
        self._callbacks_in_the_end()
        self._work_in_the_end()
        self.waits.end()
        self.backfills.end()
        self.quarantine.end()
        self.history.seen["tasks that waited for the run before"] = self.pasts.waited

    def _fleet_in_the_end(self) -> None:
        tables, living = self.history.tables, self.history.living
        if dead := tables["scheduler"].keys() - living:
            self.say("dead rows", f"schedulers {sorted(dead)} are not alive")
        owners = {row["incarnation"] for row in tables["partition_lease"].values()}
        if None in owners:
            self.say("nobody's", f"partitions {sorted(self.free)} are without an owner in the end")
        if dead := owners - living - {None}:
            self.say("dead rows", f"partitions belong to {sorted(dead)}, who are not alive")
        if tables["task_report"]:
            self.say("inbox", f"{len(tables['task_report'])} reports are left")

    def _runs_in_the_end(self) -> None:
        runs = self.history.tables["dag_run"].values()
        for dag_id, count in self.plan.intervals.items():
            spec = self.specs[dag_id]
            step = (spec.end_date - EPOCH) / (count - 1) if count > 1 and spec.end_date else timedelta(0)
            automated = [r for r in runs if r["dag_id"] == dag_id and r["run_type"] in ("scheduled", "backfill")]
            dates = sorted(r["logical_date"] for r in automated if r["logical_date"] >= EPOCH)
            if dates != [EPOCH + step * n for n in range(count)]:
                self.say("intervals", f"{dag_id} has runs for {[f'{date:%M:%S}' for date in dates]}, {count} are due")
        asked = Counter(
            (c["dag_id"], json.loads(c["args"])["run_id"])
            for c in self.history.tables["request"].values()
            if c["verb"] == "trigger" and c["state"] == "applied"
        )
        there = Counter((r["dag_id"], r["run_id"]) for r in runs if r["run_type"] == "manual")
        if asked != there:
            self.say(
                "inbox",
                f"answered triggers and runs differ: {asked - there} without a run, {there - asked} without an answer",
            )
        waiting = [c["id"] for c in self.history.tables["request"].values() if c["state"] == "waiting"]
        if waiting:
            self.say("inbox", f"requests {waiting} wait for ever")

    def _callbacks_in_the_end(self) -> None:
        for what, count in self.callbacks.items():
            if count > 1 + self._clears(what[1]):
                self.say("callbacks", f"{what} was asked for {count} times")
        requested = {c.key for e in self.history.events if isinstance(e, Commit) for c in e.changes
                     if c.table == "callback_outbox" and c.old is None}  # fmt: skip
        left = self.history.tables["callback_outbox"]
        for number in requested:
            if number in left:
                if left[number]["given_up_at"] is None or left[number]["attempts"] < 3:
                    self.say("callbacks", f"callback {number} waits for ever")
            elif not self.ran[number]:
                self.say("callbacks", f"callback {number} was forgotten and never run")

    def _work_in_the_end(self) -> None:
        """A success that its scheduler lived to store is not repeated."""
        for instance, attempts in self.succeeded.items():
            row = self.rows["task_instance"].get(instance)  # None: cleared, and not mapped again
            counted = None if row is None else row["try_number"]
            for attempt in attempts:
                incarnation = self.handed[attempt].incarnation
                lives = incarnation in self.history.living
                if attempt[3] != counted and lives and not self._clears(instance[0]):
                    self.say(
                        "repeated", f"{attempt} had succeeded with {incarnation}, which lives; try {counted} counts"
                    )


def _brief(row: Row | None) -> str:
    if row is None:
        return "nothing"
    return f"{row['state']}, try {row['try_number']}, queued by {row['queued_by']}"


def violations(plan: Plan, history: History) -> list[str]:
    """What is wrong with a history; empty when all is well."""
    return Checker(plan, history).check()


def _partition(run: Row) -> int:
    """The partition of a run, whether all its task instances are stored or not."""
    partition = int(run["partition"])
    return partition if partition >= 0 else as_incomplete(partition)
