"""Which callbacks run next: those of one DAG never occupy all places, so one whose callbacks hang harms only itself.

The DAG with the fewest running callbacks goes first, and the last free place is only for a DAG that has none running.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice


def next_callbacks(waiting: Mapping[str, Iterable[int]], running: Mapping[str, int], places: int) -> list[int]:
    """The callbacks to begin now, by number.

    `waiting` has those of each DAG in their order, `running` how many of each DAG run, and `places` is how many can run
    at a time. Among DAGs with equally many running callbacks, the one whose first callback has the lowest number goes
    first.
    """
    free = places - sum(running.values())
    counts, chosen = Counter(running), list[int]()
    first = {dag_id: list(islice(numbers, max(free, 0))) for dag_id, numbers in waiting.items()} if free > 0 else {}
    while free > 0:
        open_to = [
            (counts[dag_id], numbers[0], dag_id)
            for dag_id, numbers in first.items()
            if numbers and (free > 1 or not counts[dag_id])
        ]
        if not open_to:
            break
        _, number, dag_id = min(open_to)
        first[dag_id].pop(0)
        chosen.append(number)
        counts[dag_id] += 1
        free -= 1
    return chosen
