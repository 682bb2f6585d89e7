"""The jobs of a comparison in the batches in which applications ask for them. It needs the standard library only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from benchmarks.shapes import Shape

AT_ONCE: Final = 1000  # jobs that a system may run at one time
BATCH: Final = 500  # jobs that are asked for together


def batches(shape: Shape) -> Iterator[list[str]]:
    """The names of the jobs, as many at a time as are asked for together."""
    names = shape.dag_ids()
    for first in range(0, len(names), BATCH):
        yield names[first : first + BATCH]
