"""Unified diffs of texts of any kind, in time that hardly grows faster than their length. Pure.

Lines that both texts have once are the fixed points ("patience diff"); between them difflib compares, as long as that
is little work. What is left differs as a whole: a longer diff, and still a true one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, Final, NamedTuple

MOST_STEPS: Final = 2_000_000  # of difflib for one diff: at most some tenths of a second
_MOST_ROUNDS: Final = 8  # of looking for fixed points inside what is left


class Run(NamedTuple):
    """Lines that both have: where they begin in each, and how many they are."""

    one: int
    two: int
    length: int


def unified(one: str, two: str, names: tuple[str, str]) -> str:
    """A unified diff of two texts, with three lines around each change; empty if their lines are equal."""
    before, after = one.splitlines(), two.splitlines()
    matcher: Any = SequenceMatcher(None, "", "")
    matcher.matching_blocks = [*map(tuple, equal_runs(before, after)), (len(before), len(after), 0)]
    lines: list[str] = []
    for group in matcher.get_grouped_opcodes():
        first, last = group[0], group[-1]
        lines.append(f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@")
        for tag, a, b, c, d in group:
            if tag == "equal":
                lines += [f" {line}" for line in before[a:b]]
            else:
                lines += [f"-{line}" for line in before[a:b]]
                lines += [f"+{line}" for line in after[c:d]]
    return "\n".join([f"--- {names[0]}", f"+++ {names[1]}", *lines]) if lines else ""


def _range(start: int, stop: int) -> str:
    length = stop - start
    return str(start + 1) if length == 1 else f"{start + 1 if length else start},{length}"


def equal_runs(one: Sequence[str], two: Sequence[str]) -> list[Run]:
    """The lines that do not change, in order and without gaps where none are."""
    found: list[Run] = []
    left = MOST_STEPS
    waiting = [(0, len(one), 0, len(two), 0)]
    while waiting:
        a, b, c, d, rounds = waiting.pop()
        start = 0
        while a + start < b and c + start < d and one[a + start] == two[c + start]:
            start += 1
        a, c, end = a + start, c + start, 0
        while a < b - end and c < d - end and one[b - 1 - end] == two[d - 1 - end]:
            end += 1
        b, d = b - end, d - end
        found += [Run(a - start, c - start, start), Run(b, d, end)]
        if a == b or c == d:
            continue
        points = list(_fixed_points(one[a:b], two[c:d])) if rounds < _MOST_ROUNDS else []
        if points:
            ends = [(a + i, c + j) for i, j in points]
            for (a1, c1), (b1, d1) in zip([(a, c), *ends], [*ends, (b, d)], strict=True):
                waiting.append((a1, b1, c1, d1, rounds + 1))
        elif (steps := _steps(one[a:b], two[c:d])) <= left:
            left -= steps
            matches = SequenceMatcher(None, one[a:b], two[c:d], autojunk=False).get_matching_blocks()
            found += [Run(a + i, c + j, length) for i, j, length in matches]
    return _joined(sorted(run for run in found if run.length))


def _fixed_points(one: Sequence[str], two: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The places of lines that both have once: the longest series that is in the same order in both."""
    in_one, in_two = Counter(one), Counter(two)
    places = {line: place for place, line in enumerate(two) if in_two[line] == 1}
    pairs = [(i, places[line]) for i, line in enumerate(one) if in_one[line] == 1 and line in places]
    ends: list[int] = []  # the least last place of a series of each length
    last: list[int] = []  # the pair that it ends with
    before: list[int] = []  # of each pair: the pair in front of it, or -1
    for number, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [place]
        last[length : length + 1] = [number]
    series: list[tuple[int, int]] = []
    number = last[-1] if last else -1
    while number >= 0:
        series.append(pairs[number])
        number = before[number]
    yield from reversed(series)


def _steps(one: Sequence[str], two: Sequence[str]) -> int:
    """How much work difflib has at most: the pairs of equal lines, for each run that it may find."""
    times = Counter(two)
    return (sum(times[line] for line in one) + len(one) + len(two)) * min(len(one), len(two))


def _joined(runs: Sequence[Run]) -> list[Run]:
    found: list[Run] = []
    for run in runs:
        if found and (found[-1].one + found[-1].length, found[-1].two + found[-1].length) == (run.one, run.two):
            found[-1] = found[-1]._replace(length=found[-1].length + run.length)
        else:
            found.append(run)
    return found
