"""Python's collector of reference cycles, told that most of what a scheduler holds lives long.

Its youngest generation is looked through every 700 new objects by default, and a batch of a busy scheduler makes
thousands that stay for a moment and make no cycles: a fifth of its processor time went there. The setting belongs to a
process as a whole, so `aiosched serve` makes it for its own, and a `Scheduler` inside an application leaves it alone.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Look for garbage seldom, in this process, as long as the block lasts."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
