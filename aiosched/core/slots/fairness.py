"""Fair shares between DAGs: of the reports of a pass, and of the places of callbacks.

Callbacks of one DAG never occupy all places, so one whose callbacks hang harms only itself. The DAG with the fewest
running callbacks goes first, and the last free place is only for a DAG that has none running. A callback that has run
for `SLOW` seconds goes on, but takes no place any more: so even if callbacks of several DAGs hang, others get their
turn. It still counts for its own DAG, which never has more running than all places but one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final


def fair_shares(wanted: Mapping[str, int], room: int) -> dict[str, int]:
    """The share of each in `room`: who wants less than an equal share gets all of it, the others share what is left.

    Each gets at least one, so the shares may be more than `room` together.
    """
    shares: dict[str, int] = {}
    for name in sorted(wanted, key=wanted.__getitem__):
        shares[name] = min(wanted[name], max(room // (len(wanted) - len(shares)), 1))
        room -= shares[name]
    return shares


SLOW: Final = 60.0  # seconds
_MOST: Final = 4  # times as many callbacks as places may run at a time, slow ones included


def next_callbacks(
    waiting: Mapping[str, Iterable[int]], running: Mapping[str, int], places: int, *, slow: int = 0
) -> list[int]:
    """The callbacks to begin now, by number.

    `waiting` has those of each DAG in their order, `running` how many of each DAG run, `slow` how many of these take no
    place, and `places` is how many others can run at a time. Among DAGs with equally many running callbacks, the one
    whose first callback has the lowest number goes first.
    """
    total = sum(running.values())
    free = min(places - (total - slow), _MOST * places - total)
    counts, chosen = Counter(running), list[int]()
    first = {dag_id: list(islice(numbers, free)) for dag_id, numbers in waiting.items()} if free > 0 else {}
    for left in range(free, 0, -1):
        open_to = [
            (counts[dag_id], numbers[0], dag_id)
            for dag_id, numbers in first.items()
            if numbers and counts[dag_id] < (places - 1 if left > 1 else 1)
        ]
        if not open_to:
            break
        _, number, dag_id = min(open_to)
        first[dag_id].pop(0)
        chosen.append(number)
        counts[dag_id] += 1
    return chosen
