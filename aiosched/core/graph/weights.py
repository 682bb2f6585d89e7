"""Effective priority weights: which tasks go first when slots are scarce.

Source: the semantics reference, section 18.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final

from aiosched.core.graph.names import rule_named

MIN_WEIGHT: Final = -(2**31)
MAX_WEIGHT: Final = 2**31 - 1

Edges = Sequence[Sequence[int]]  # for each task index its direct neighbours in one direction


class WeightRule(StrEnum):
    """Which weights are added to a task's own."""

    DOWNSTREAM = "downstream"
    UPSTREAM = "upstream"
    ABSOLUTE = "absolute"

    @classmethod
    @lru_cache(64)
    def parse(cls, name: str) -> WeightRule:
        """The rule with that name; raises DagError naming the nearest one."""
        return rule_named(cls, name, "weight rule")


def effective_weights(
    own: Sequence[int], rules: Sequence[WeightRule], *, upstream: Edges, downstream: Edges, order: Sequence[int]
) -> tuple[int, ...]:
    """The priority weight of each task: its own, plus those of all distinct descendants or ancestors.

    `order` is topological (upstreams first). Results are capped to signed 32-bit integers.
    """
    used = set(rules)
    below = sums_of_reachable(own, downstream, upstream, reversed(order)) if WeightRule.DOWNSTREAM in used else own
    above = sums_of_reachable(own, upstream, downstream, order) if WeightRule.UPSTREAM in used else own
    choice = {WeightRule.DOWNSTREAM: below, WeightRule.UPSTREAM: above, WeightRule.ABSOLUTE: own}
    return tuple(capped(choice[rule][index]) for index, rule in enumerate(rules))


def capped(weight: int) -> int:
    """`weight`, or the nearest signed 32-bit integer."""
    return max(MIN_WEIGHT, min(MAX_WEIGHT, weight))


def sums_of_reachable(own: Sequence[int], ahead: Edges, behind: Edges, order: Iterable[int]) -> list[int]:
    """For each task the sum of `own` over itself and every task reachable by `ahead`, each counted once.

    `order` visits a task after all tasks ahead of it. Sets are integers with one bit per task, and a set is dropped
    once every task after it has used it: a chain of any length holds one at a time. Weights are summed by binary digit:
    the digit's value times the number of reachable tasks that have it, so equal weights cost one bit count per task.
    """
    lowest = min(own, default=0)
    digits = _masks([weight - lowest for weight in own])
    reach: dict[int, int] = {}
    users_left = [len(neighbours) for neighbours in behind]
    sums = [0] * len(own)
    for index in order:
        bits = 1 << index
        for neighbour in ahead[index]:
            bits |= reach[neighbour]
            users_left[neighbour] -= 1
            if not users_left[neighbour]:
                del reach[neighbour]
        total = lowest * bits.bit_count()
        for value, mask in digits:
            total += value * (bits & mask).bit_count()
        sums[index] = total
        if users_left[index]:
            reach[index] = bits
    return sums


def _masks(weights: Sequence[int]) -> list[tuple[int, int]]:
    """Each binary digit that occurs: its value, and the set of tasks whose weight has it."""
    masks = []
    for digit in range(max(weights, default=0).bit_length()):
        members = "".join("1" if weight >> digit & 1 else "0" for weight in reversed(weights))
        if mask := int(members, 2):
            masks.append((1 << digit, mask))
    return masks
