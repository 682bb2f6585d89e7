"""What a trigger rule should say, worked out from the upstreams' states instead of from counts.

Written apart from `aiosched.core.graph.trigger_rules`: a list of states is asked the questions
of the truth table in words, first the settling ones in their order, then whether to run.
Source: the semantics reference, section 5.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

RUN, WAIT = "run", "wait"
SKIP, UPSTREAM_FAILED, REMOVED = "skipped", "upstream_failed", "removed"

# What an upstream can be: "waiting" stands for every unfinished state, "setup:" marks a setup task.
PLAIN = ("success", "skipped", "failed", "upstream_failed", "removed", "waiting")


class Seen:
    """The states of the upstreams."""

    def __init__(self, upstreams: Sequence[str]) -> None:
        self.setups = [name.removeprefix("setup:") for name in upstreams if name.startswith("setup:")]
        self.states = [name.removeprefix("setup:") for name in upstreams]
        self.finished = "waiting" not in self.states

    def any(self, *states: str) -> bool:
        return any(state in states for state in self.states)

    def only(self, *states: str) -> bool:
        return all(state in states for state in self.states)


def _settled(rule: str, seen: Seen) -> str | None:
    tests: dict[str, list[tuple[Callable[[], bool], str]]] = {
        "all_success": [
            (lambda: seen.any("failed", "upstream_failed"), UPSTREAM_FAILED),
            (lambda: seen.any("skipped"), SKIP),
        ],
        "all_failed": [(lambda: seen.any("success", "skipped"), SKIP)],
        "all_skipped": [(lambda: seen.any("success", "failed", "upstream_failed"), SKIP)],
        "one_success": [
            (lambda: seen.only("skipped"), SKIP),
            (lambda: seen.finished and not seen.any("success"), UPSTREAM_FAILED),
        ],
        "one_failed": [(lambda: seen.finished and not seen.any("failed", "upstream_failed"), SKIP)],
        "one_done": [(lambda: seen.finished and not seen.any("success", "failed"), SKIP)],
        "none_failed": [(lambda: seen.any("failed", "upstream_failed"), UPSTREAM_FAILED)],
        "none_failed_min_one_success": [
            (lambda: seen.any("failed", "upstream_failed"), UPSTREAM_FAILED),
            (lambda: seen.only("skipped"), SKIP),
            (lambda: seen.finished and not seen.any("success"), UPSTREAM_FAILED),
        ],
        "none_skipped": [(lambda: seen.any("skipped"), SKIP)],
        "all_done_min_one_success": [
            (lambda: seen.any("skipped"), SKIP),
            (
                lambda: seen.only("success", "failed", "upstream_failed", "removed") and not seen.any("success"),
                UPSTREAM_FAILED,
            ),
        ],
        "all_done_setup_success": [
            (lambda: seen.finished and bool(seen.setups) and set(seen.setups) == {"skipped"}, SKIP),
            (lambda: seen.finished and bool(seen.setups) and "success" not in seen.setups, UPSTREAM_FAILED),
        ],
    }
    return next((verdict for test, verdict in tests.get(rule, []) if test()), None)


def _runs(rule: str, seen: Seen) -> bool:
    return {
        "all_success": lambda: seen.only("success", "removed"),
        "all_failed": lambda: seen.only("failed", "upstream_failed", "removed"),
        "all_done": lambda: seen.finished,
        "all_skipped": lambda: seen.only("skipped"),
        "one_success": lambda: seen.any("success"),
        "one_failed": lambda: seen.any("failed", "upstream_failed"),
        "one_done": lambda: seen.any("success", "failed"),
        "none_failed": lambda: seen.only("success", "skipped", "removed"),
        "none_failed_min_one_success": lambda: seen.only("success", "skipped", "removed") and seen.any("success"),
        "none_skipped": lambda: seen.finished and not seen.any("skipped"),
        "all_done_min_one_success": lambda: (
            seen.only("success", "failed", "upstream_failed", "removed") and seen.any("success")
        ),
        "all_done_setup_success": lambda: seen.finished and (not seen.setups or "success" in seen.setups),
        "always": lambda: True,
    }[rule]()


def expected(rule: str, upstreams: Sequence[str]) -> str:
    """run, wait, or the state that `rule` settles a task with these `upstreams` in."""
    if not upstreams:
        return RUN
    seen = Seen(upstreams)
    return _settled(rule, seen) or (RUN if _runs(rule, seen) else WAIT)
