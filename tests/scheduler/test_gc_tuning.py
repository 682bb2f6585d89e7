"""Python's garbage collector runs rarely while a scheduler runs, and as before afterwards."""

from __future__ import annotations

import gc

from aiosched.scheduler.gc_tuning import rare_collections


def test_collections_are_rare_inside_and_as_they_were_afterwards() -> None:
    before = gc.get_threshold()

    with rare_collections():
        inside = gc.get_threshold()

    assert inside[0] >= 10_000
    assert gc.get_threshold() == before
