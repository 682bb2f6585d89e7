"""The order of tasks and groups in a list: each after everything that it depends on, where this is possible.

Pure functions. Groups and their members are a tree; the children of each container are put in order by the
dependencies between them and what they hold.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence


def topological(children: Sequence[str], edges: Iterable[tuple[str, str]]) -> list[str]:
    """The children so that the first of each edge comes before the second; otherwise as they are given.

    Groups can depend on each other in a circle, as their tasks cannot: then the first of the rest comes next.
    """
    place = {child: position for position, child in enumerate(children)}
    after: dict[str, set[str]] = defaultdict(set)
    missing: dict[str, set[str]] = defaultdict(set)
    for first, second in edges:
        after[first].add(second)
        missing[second].add(first)
    ready = [place[child] for child in children if not missing[child]]
    rest = dict.fromkeys(children)
    found: list[str] = []
    while rest:
        child = children[heapq.heappop(ready)] if ready else next(iter(rest))
        if child not in rest:
            continue
        del rest[child]
        found.append(child)
        for each in after[child]:
            missing[each].discard(child)
            if not missing[each] and each in rest:
                heapq.heappush(ready, place[each])
    return found


def lifted(
    edges: Iterable[tuple[str, str]], around: Mapping[str, Sequence[str]]
) -> dict[str | None, list[tuple[str, str]]]:
    """The edges between tasks as edges between the children of a container, by the container (None: the DAG).

    `around` has the groups of each task, the innermost first.
    """
    found: dict[str | None, list[tuple[str, str]]] = defaultdict(list)
    for first, second in edges:
        ways = [[None, *reversed(around[task]), task] for task in (first, second)]
        for depth, (one, other) in enumerate(zip(*ways, strict=False)):
            if one != other:
                found[ways[0][depth - 1]].append((str(one), str(other)))
                break
    return found
