"""When the states of a task's direct upstreams allow it to run, or settle it.

Lives here: the counts of finished upstreams and the truth table, one small function per rule. Does not live here: which
tasks are upstreams (graph.py), the rules about earlier runs.
Source: the semantics reference, section 5 (and 8.3 for setups further up).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from aiosched.core.graph.names import rule_named
from aiosched.core.values.states import TaskState


class TriggerRule(StrEnum):
    """What a task requires of its direct upstreams before it runs."""

    ALL_SUCCESS = "all_success"
    ALL_FAILED = "all_failed"
    ALL_DONE = "all_done"
    ALL_SKIPPED = "all_skipped"
    ONE_SUCCESS = "one_success"
    ONE_FAILED = "one_failed"
    ONE_DONE = "one_done"
    NONE_FAILED = "none_failed"
    NONE_FAILED_MIN_ONE_SUCCESS = "none_failed_min_one_success"
    NONE_SKIPPED = "none_skipped"
    ALL_DONE_MIN_ONE_SUCCESS = "all_done_min_one_success"
    ALL_DONE_SETUP_SUCCESS = "all_done_setup_success"  # teardowns only
    ALWAYS = "always"

    @classmethod
    @lru_cache(64)
    def parse(cls, name: str) -> TriggerRule:
        """The rule with that name or old alias; raises DagError naming the nearest rule."""
        return rule_named(cls, _ALIASES.get(name, name), "trigger rule")


_ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {"none_failed_or_skipped": "none_failed_min_one_success", "dummy": "always"}
)


class TriggerVerdict(Enum):
    """The current verdict of a rule. The last two settle the task in the state of that name."""

    RUN = "run"
    WAIT = "wait"
    SKIPPED = TaskState.SKIPPED
    UPSTREAM_FAILED = TaskState.UPSTREAM_FAILED

    @property
    def settles(self) -> bool:
        """The task ends here, without running."""
        return self is not TriggerVerdict.RUN and self is not TriggerVerdict.WAIT

    @property
    def state(self) -> TaskState | None:
        """The state it settles the task in; None for RUN and WAIT."""
        return self.value if isinstance(self.value, TaskState) else None


RUN, WAIT, SKIPPED, UPSTREAM_FAILED = (
    TriggerVerdict.RUN,
    TriggerVerdict.WAIT,
    TriggerVerdict.SKIPPED,
    TriggerVerdict.UPSTREAM_FAILED,
)


class StateCounts:
    """The number of finished direct upstream instances by state. Mutable, one per waiting task instance.

    `done` is the sum of the five states. The setup counts are the same restricted to setup tasks. The hot path can
    increment the attributes itself: `success` together with `done`.
    """

    __slots__ = ("done", "failed", "removed", "skipped", "skipped_setup", "success", "success_setup", "upstream_failed")

    def __init__(
        self, *, success: int = 0, skipped: int = 0, failed: int = 0, upstream_failed: int = 0, removed: int = 0
    ) -> None:
        self.success, self.skipped, self.failed = success, skipped, failed
        self.upstream_failed, self.removed = upstream_failed, removed
        self.done = success + skipped + failed + upstream_failed + removed
        self.success_setup = self.skipped_setup = 0

    def add(self, state: TaskState, *, is_setup: bool = False, by: int = 1) -> None:
        """Count an upstream that reached `state`; unfinished states are not counted. `by=-1` reverts it."""
        if state is TaskState.SUCCESS:
            self.success += by
            if is_setup:
                self.success_setup += by
        elif state is TaskState.SKIPPED:
            self.skipped += by
            if is_setup:
                self.skipped_setup += by
        elif state is TaskState.FAILED:
            self.failed += by
        elif state is TaskState.UPSTREAM_FAILED:
            self.upstream_failed += by
        elif state is TaskState.REMOVED:
            self.removed += by
        else:
            return
        self.done += by

    def __add__(self, other: StateCounts) -> StateCounts:
        total = StateCounts()
        for name in self.__slots__:
            setattr(total, name, getattr(self, name) + getattr(other, name))
        return total

    def __repr__(self) -> str:
        shown = ((name, getattr(self, name)) for name in sorted(self.__slots__))
        return f"Counts({', '.join(f'{name}={count}' for name, count in shown if count)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StateCounts):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]


def judge(rule: TriggerRule, counts: StateCounts, total: int, total_setup: int = 0) -> TriggerVerdict:
    """The verdict of `rule` on a task instance with `total` direct upstream instances, of which `counts` have finished.

    Settling takes precedence over running, and happens as soon as it is certain: a task with a failed upstream does not
    wait for the others. A task without upstreams runs. `total_setup` counts the upstreams that are setups.

    Source: the semantics reference, section 5.2.
    """
    if total == 0 or (rule is TriggerRule.ALL_SUCCESS and counts.success >= total):
        return RUN
    return _JUDGES[rule](counts, total, total_setup)


def judge_setups(counts: StateCounts, total: int) -> TriggerVerdict:
    """The verdict on a normal task of its relevant setups that are not direct upstreams (`Graph.indirect_setups`).

    If it settles the task, the trigger rule does not apply. Source: section 8.3.
    """
    return _all_success(counts, total, 0) if total else RUN


def explain(rule: TriggerRule, counts: StateCounts, total: int, total_setup: int, *, noun: str = "upstream") -> str:
    """The progress of the upstreams in terms of the rule, as one line of text. `noun` names the upstreams."""
    if total == 0:
        return "no upstreams"
    if rule is TriggerRule.ALWAYS:
        return "does not wait for upstreams (always)"
    number, verb = _PROGRESS[rule](counts)
    what = f"{noun}{'s' if total > 1 else ''} " if noun else ""
    text = f"{number} of {total} {what}{verb} ({rule})"
    others = ["none succeeded"] if rule in _MIN_ONE_SUCCESS and not counts.success else []
    if rule is TriggerRule.ALL_DONE_SETUP_SUCCESS and total_setup and not counts.success_setup:
        others.append("no setup succeeded")
    others += [
        f"{count} {word}"
        for count, word in (
            (counts.failed, "failed"),
            (counts.upstream_failed, "upstream-failed"),
            (counts.skipped, "skipped"),
            (counts.removed, "removed"),
        )
        if count and word not in verb
    ]
    return f"{text}; {', '.join(others)}" if others else text


# One function per rule: the tests that settle in the order of the table, then the test to run.
Judge = Callable[[StateCounts, int, int], TriggerVerdict]


def _all_success(c: StateCounts, total: int, total_setup: int) -> TriggerVerdict:
    if c.failed + c.upstream_failed > 0:
        return UPSTREAM_FAILED
    if c.skipped > 0:
        return SKIPPED
    return RUN if total - c.success - c.removed <= 0 else WAIT


def _all_failed(c: StateCounts, total: int, total_setup: int) -> TriggerVerdict:
    if c.success + c.skipped > 0:
        return SKIPPED
    return RUN if total - c.failed - c.upstream_failed - c.removed <= 0 else WAIT


def _all_done(c: StateCounts, total: int, total_setup: int) -> TriggerVerdict:
    return RUN if c.done >= total else WAIT


def _all_skipped(c: StateCounts, total: int, total_setup: int) -> TriggerVerdict:
    if c.success + c.failed + c.upstream_failed > 0:
        return SKIPPED
    return RUN if total - c.skipped <= 0 else WAIT


def _one_success(c: StateCounts, total: int, total_setup: int) -> TriggerVerdict:
    if c.success >= 1:
        return RUN
    if c.done < total:
        return WAIT
    return SKIPPED if c.done == c.skipped else UPSTREAM_FAILED


def _one_failed(c: StateCounts, total: int, total_setup: int) -> TriggerVerdict:
    if c.failed + c.upstream_failed >= 1:
        return RUN
    return SKIPPED if c.done >= total else WAIT


def _one_done(c: StateCounts, total: int, total_setup: int) -> TriggerVerdict:
    if c.success + c.failed >= 1:
        return RUN
    return SKIPPED if c.done >= total else WAIT


def _none_failed(c: StateCounts, total: int, total_setup: int) -> TriggerVerdict:
    if c.failed + c.upstream_failed > 0:
        return UPSTREAM_FAILED
    return RUN if total - c.success - c.skipped - c.removed <= 0 else WAIT


def _none_failed_min_one_success(c: StateCounts, total: int, total_setup: int) -> TriggerVerdict:
    if c.failed + c.upstream_failed > 0:
        return UPSTREAM_FAILED
    if c.skipped == total:
        return SKIPPED
    if c.done >= total and c.success == 0:
        return UPSTREAM_FAILED
    return RUN if total - c.success - c.skipped - c.removed <= 0 else WAIT


def _none_skipped(c: StateCounts, total: int, total_setup: int) -> TriggerVerdict:
    if c.skipped > 0:
        return SKIPPED
    return RUN if c.done >= total else WAIT


def _all_done_min_one_success(c: StateCounts, total: int, total_setup: int) -> TriggerVerdict:
    if c.skipped > 0:
        return SKIPPED
    if c.success + c.failed + c.upstream_failed + c.removed < total:
        return WAIT
    return RUN if c.success >= 1 else UPSTREAM_FAILED


def _all_done_setup_success(c: StateCounts, total: int, total_setup: int) -> TriggerVerdict:
    if c.done < total:
        return WAIT
    if total_setup == 0 or c.success_setup >= 1:
        return RUN
    return SKIPPED if c.skipped_setup >= total_setup else UPSTREAM_FAILED


def _always(c: StateCounts, total: int, total_setup: int) -> TriggerVerdict:
    return RUN


_JUDGES: Final[Mapping[TriggerRule, Judge]] = MappingProxyType(
    {
        TriggerRule.ALL_SUCCESS: _all_success,
        TriggerRule.ALL_FAILED: _all_failed,
        TriggerRule.ALL_DONE: _all_done,
        TriggerRule.ALL_SKIPPED: _all_skipped,
        TriggerRule.ONE_SUCCESS: _one_success,
        TriggerRule.ONE_FAILED: _one_failed,
        TriggerRule.ONE_DONE: _one_done,
        TriggerRule.NONE_FAILED: _none_failed,
        TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS: _none_failed_min_one_success,
        TriggerRule.NONE_SKIPPED: _none_skipped,
        TriggerRule.ALL_DONE_MIN_ONE_SUCCESS: _all_done_min_one_success,
        TriggerRule.ALL_DONE_SETUP_SUCCESS: _all_done_setup_success,
        TriggerRule.ALWAYS: _always,
    }
)

_MIN_ONE_SUCCESS: Final = frozenset({TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS, TriggerRule.ALL_DONE_MIN_ONE_SUCCESS})

# What a rule counts as progress, for `explain`.
_PROGRESS: Final[Mapping[TriggerRule, Callable[[StateCounts], tuple[int, str]]]] = MappingProxyType(
    {
        TriggerRule.ALL_SUCCESS: lambda c: (c.success, "succeeded"),
        TriggerRule.ALL_FAILED: lambda c: (c.failed + c.upstream_failed, "failed or upstream-failed"),
        TriggerRule.ALL_DONE: lambda c: (c.done, "done"),
        TriggerRule.ALL_SKIPPED: lambda c: (c.skipped, "skipped"),
        TriggerRule.ONE_SUCCESS: lambda c: (c.success, "succeeded"),
        TriggerRule.ONE_FAILED: lambda c: (c.failed + c.upstream_failed, "failed or upstream-failed"),
        TriggerRule.ONE_DONE: lambda c: (c.success + c.failed, "succeeded or failed"),
        TriggerRule.NONE_FAILED: lambda c: (c.success + c.skipped, "succeeded or skipped"),
        TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS: lambda c: (c.success + c.skipped, "succeeded or skipped"),
        TriggerRule.NONE_SKIPPED: lambda c: (c.done - c.skipped, "done without a skip"),
        TriggerRule.ALL_DONE_MIN_ONE_SUCCESS: lambda c: (c.done, "done"),
        TriggerRule.ALL_DONE_SETUP_SUCCESS: lambda c: (c.done, "done"),
    }
)
