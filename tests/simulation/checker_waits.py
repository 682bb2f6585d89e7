"""The rules of tasks that wait for triggers: they go on when one has fired, with its event, and only with the first.

Part of the checker (checker.py): it knows the plan and the rows, and nothing of how schedulers work.
Source: the semantics reference, section 25.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from aiosched.db.crypto.sealing import NOTHING, is_sealed
from tests.simulation.history import Attempt, Began, Commit, Ended, Fired, Handed, Row, RowChange
from tests.simulation.store import EPOCH
from tests.simulation.workload import FAULTS_END

if TYPE_CHECKING:
    from tests.simulation.checker import Checker, Instance

LATE: Final = 5.0  # seconds after its time is over, and the faults are, in which a wait ends
_TINY: Final = 1e-5  # what rounding instants to microseconds may change

Which = tuple[int, int, int, int, int]  # run, task index, map index, try, the how manieth trigger of it


class Waits:
    """Hears of every commit, and of what happens on the machines."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self._deferred: set[Attempt] = set()  # tries that have waited
        self._events: dict[Which, set[str]] = defaultdict(set)
        self._asked: dict[Attempt, float] = {}  # when an attempt last ended by asking to wait
        self._counts: dict[Instance, Which] = {}  # whose event is stored
        self._running: dict[Which, list[Handed]] = defaultdict(list)

    # -- commits

    def commit(self, commit: Commit) -> None:
        """Call it when the rows are as they are now."""
        for change in commit.changes:
            if change.table == "task_instance":
                self._instance(change)
            elif change.table == "deferred_trigger":
                self._deferral(change)

    def _instance(self, change: RowChange) -> None:
        if change.old is None or change.new is None:
            return
        key, before, after = change.key, change.old["state"], change.new["state"]
        same_try = change.old["try_number"] == change.new["try_number"]
        if before == after and same_try:
            return
        if after == "deferred":
            self._defers(key, before, change.new, same_try=same_try)
        elif before == "deferred" and same_try and after in ("scheduled", "queued", "running", "success"):
            row = self._checker.rows["deferred_trigger"].get(key)
            if row is None or (row["event"] is None and not row["timed_out"]):
                self._say("waits", f"{self._name(key)} goes on as {after}, and its trigger has not fired")

    def _defers(self, key: Instance, before: str | None, new: Row, *, same_try: bool) -> None:
        """A try waits for a trigger: in the middle of it, or because it begins so."""
        row = self._checker.rows["deferred_trigger"].get(key)
        self._deferred.add((*key, new["try_number"]))
        begins = self._checker.task(key).starts_deferred is not None and (before == "scheduled" or not same_try)
        if begins:
            self._checker.history.seen["tasks that began in a trigger"] += 1
        elif before not in ("queued", "running") or not same_try:
            self._say("transition", f"{self._name(key)} went from {before} to deferred")
        if row is None:
            self._say("waits", f"{self._name(key)} waits for a trigger that is not stored")
        elif begins and _place(row["next_method"]) != 1:
            self._say("waits", f"{self._name(key)} begins with {row['next_method']}")

    def _deferral(self, change: RowChange) -> None:
        key, old, new = change.key, change.old, change.new
        if new is None:
            return
        which = (*key, self._checker.rows["task_instance"][key]["try_number"], _place(new["next_method"]))
        if new["error"] is not None and not new["timed_out"]:
            self._say("waits", f"{self._name(key)} goes on by failing: {new['error']}")
        self._check_timeout(which, change)
        self._check_arguments(new)
        if old is not None and self._counts.get(key) == which and _end(old) != _end(new):
            self._say("first event", f"{self._name(key)} was to go on with {_end(old)}, then with {_end(new)}")
        elif _end(new) is not None:
            self._counts[key] = which
            if not new["timed_out"] and new["event"] not in self._events[which]:
                self._say("waits", f"{self._name(key)} goes on with {new['event']}, which none of its triggers fired")

    def _check_arguments(self, new: Row) -> None:
        """They are encrypted if there is a key; those of a trigger that has ended are gone."""
        kept = (
            [new["next_kwargs"]]
            if _end(new) is not None and new["kwargs"] == NOTHING
            else [new["kwargs"], new["next_kwargs"]]
        )
        for arguments in kept:
            if is_sealed(arguments) != bool(self._checker.plan.keys):
                self._say("secrets", f"arguments of a trigger are stored as {arguments}")
        self._checker.history.seen["sealed arguments"] += len(kept) if self._checker.plan.keys else 0

    def _check_timeout(self, which: Which, change: RowChange) -> None:
        """It is as long as planned, and ends the wait when it is over: not before, and not much later."""
        new, old, at = change.new, change.old, self._checker.at
        assert new is not None
        until = None if new["timeout_at"] is None else (new["timeout_at"] - EPOCH).total_seconds()
        name = f"{self._name(which[:3])} (trigger {which[4]})"
        timeout = self._timeout(which, begins=which[:4] not in self._asked)
        if (timeout is None) != (until is None):
            self._say("timeouts", f"{name} is to wait until {until}, its timeout is {timeout}")
        if until is None or timeout is None:
            return
        since = self._asked.get(which[:4], 0.0)
        if _end(new) is None and not since + timeout - _TINY <= until <= at + timeout + _TINY:
            self._say("timeouts", f"{name} waits from {since} or later until {until}, its timeout is {timeout}")
        if not new["timed_out"] or (old is not None and old["timed_out"]):
            return
        self._checker.history.seen["deferrals that timed out"] += 1
        if at < until:
            self._say("timeouts", f"{name} has timed out, its time is over at {until}")
        quarantined = self._checker.spec(which[0]).dag_id in self._checker.history.tables["dag_quarantine"]
        if at > max(until, FAULTS_END) + LATE and not quarantined:
            self._say("timeouts", f"{name} has timed out {at - until:.0f} s after its time was over")

    def _timeout(self, which: Which, *, begins: bool) -> float | None:
        """What is planned for a trigger; one in which a task begins has the same one in each of its tries."""
        checker, place = self._checker, which[4]
        dag_id, task = checker.rows["dag_run"][which[0]]["dag_id"], checker.task(which[:3])
        if begins and task.starts_deferred is not None and place == 1:
            found: float | None = task.starts_deferred.timeout
            if found is None:
                found = task.execution_timeout
            return found
        wait = checker.plan.behaviour.waits[dag_id, task.task_id]
        lost = checker.rows["task_instance"][which[:3]]["max_tries"] - task.retries
        return wait.timeout if wait.is_late(which[3] - lost, place) else None

    # -- machines

    def handed(self, event: Handed) -> None:
        """A trigger was handed out."""
        assert event.trigger is not None
        key, attempt = event.attempt[:3], (*event.attempt[:3], -event.attempt[3])
        which = (*attempt, event.trigger)
        instance = self._checker.rows["task_instance"].get(key)
        row = self._checker.rows["deferred_trigger"].get(key)
        as_stored = (
            instance is not None
            and row is not None
            and (instance["state"], instance["try_number"]) == ("deferred", attempt[3])
            and (_place(row["next_method"]), _end(row)) == (event.trigger, None)
        )
        removed = self._checker.removed.get(event.incarnation)
        told = f"trigger {event.trigger} of {attempt} was handed out by {event.incarnation}"
        if removed is not None and not removed.gone:
            self._say("trust", f"{told}, whose lease had run out and was taken over")
        elif removed is None and not as_stored:
            state = None if instance is None else (instance["state"], instance["try_number"])
            self._say("commit first", f"{told}, the row says {state} and {row}")
        if any(other.incarnation == event.incarnation for other in self._running[which]):
            self._say("one trigger", f"{told}, which runs it already")
        self._running[which].append(event)

    def fired(self, event: Fired) -> None:
        """A trigger has ended."""
        which = (*event.attempt[:3], -event.attempt[3], event.trigger)
        running = self._running[which]
        running[:] = [handed for handed in running if handed.node != event.node]
        if event.event is not None:
            self._events[which].add(event.event)

    def killed(self, node: int) -> None:
        """A machine is gone, with its triggers."""
        for running in self._running.values():
            running[:] = [handed for handed in running if handed.node != node]

    def began(self, event: Began) -> None:
        """An attempt begins, or goes on."""
        handed = self._checker.handed.get(event.attempt)
        if handed is not None and handed.incarnation in self._checker.removed:
            return
        found = event.event if event.error is None else event.error
        if found is None:
            if event.attempt in self._deferred:
                self._say("waits", f"{event.attempt} has waited for a trigger, and begins as if it had not")
            elif self._checker.task(event.attempt[:3]).starts_deferred is not None:
                self._say("waits", f"{event.attempt} begins in a worker, not in its trigger")
            return
        row = self._checker.rows["deferred_trigger"].get(event.attempt[:3])
        stored = None if row is None else _end(row)
        if stored != found:
            self._say("waits", f"{event.attempt} goes on with {found}, what counts is {stored}")

    def ended(self, event: Ended) -> None:
        """An attempt has ended."""
        if event.outcome == "deferred":
            self._asked[event.attempt] = event.at

    # -- the end

    def end(self) -> None:
        """Nobody waits any more."""
        for key in self._checker.history.tables["deferred_trigger"]:
            self._say("waits", f"{self._name(key)} waits for ever, or was not forgotten")

    def _say(self, rule: str, what: str) -> None:
        self._checker.say(rule, what)

    def _name(self, instance: Instance) -> str:
        return self._checker.name(instance)


def _end(row: Row) -> str | None:
    """How the wait has ended: by an event or an error; None: it has not."""
    found: str | None = row["event"] if row["error"] is None else row["error"]
    return found


def _place(method: str) -> int:
    """The how manieth deferral of its try it is, by the method that goes on."""
    return int(method.removeprefix("after_"))
