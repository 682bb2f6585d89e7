"""The rules of tasks that wait for triggers: they go on when one has fired, with its event, and only with the first.

Part of the checker (checker.py): it knows the plan and the rows, and nothing of how schedulers work.
Source: the semantics reference, section 25.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tests.simulation.history import Attempt, Began, Commit, Fired, Handed, RowChange

if TYPE_CHECKING:
    from tests.simulation.checker import Checker, Instance

Which = tuple[int, int, int, int, int]  # run, task index, map index, try, the how manieth trigger of it


class Waits:
    """Hears of every commit, and of what happens on the machines."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self._deferred: set[Attempt] = set()  # tries that have waited
        self._events: dict[Which, set[str]] = defaultdict(set)
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
        if change.old is None or change.new is None or change.old["state"] == change.new["state"]:
            return
        key, before, after = change.key, change.old["state"], change.new["state"]
        same_try = change.old["try_number"] == change.new["try_number"]
        if after == "deferred":
            self._deferred.add((*key, change.new["try_number"]))
            if before not in ("queued", "running") or not same_try:
                self._say("transition", f"{self._name(key)} went from {before} to deferred")
            if key not in self._checker.rows["deferred_trigger"]:
                self._say("waits", f"{self._name(key)} waits for a trigger that is not stored")
        elif before == "deferred" and same_try and after in ("scheduled", "queued", "running", "success"):
            row = self._checker.rows["deferred_trigger"].get(key)
            if row is None or row["event"] is None:
                self._say("waits", f"{self._name(key)} goes on as {after}, and its trigger has not fired")

    def _deferral(self, change: RowChange) -> None:
        key, old, new = change.key, change.old, change.new
        if new is None:
            return
        which = (*key, self._checker.rows["task_instance"][key]["try_number"], _place(new["next_method"]))
        if new["error"] is not None:
            self._say("waits", f"{self._name(key)} goes on by failing: {new['error']}")
        if old is not None and self._counts.get(key) == which and old["event"] != new["event"]:
            self._say("first event", f"{self._name(key)} was to go on with {old['event']}, then with {new['event']}")
        elif new["event"] is not None:
            self._counts[key] = which
            if new["event"] not in self._events[which]:
                self._say("waits", f"{self._name(key)} goes on with {new['event']}, which none of its triggers fired")

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
            and (_place(row["next_method"]), row["event"]) == (event.trigger, None)
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
        if event.event is None:
            if event.attempt in self._deferred:
                self._say("waits", f"{event.attempt} has waited for a trigger, and begins as if it had not")
            return
        row = self._checker.rows["deferred_trigger"].get(event.attempt[:3])
        if row is None or row["event"] != event.event:
            stored = None if row is None else row["event"]
            self._say("waits", f"{event.attempt} goes on with {event.event}, what counts is {stored}")

    # -- the end

    def end(self) -> None:
        """Nobody waits any more."""
        for key in self._checker.history.tables["deferred_trigger"]:
            self._say("waits", f"{self._name(key)} waits for ever, or was not forgotten")

    def _say(self, rule: str, what: str) -> None:
        self._checker.say(rule, what)

    def _name(self, instance: Instance) -> str:
        return self._checker.name(instance)


def _place(method: str) -> int:
    """The how manieth deferral of its try it is, by the method that goes on."""
    return int(method.removeprefix("after_"))
