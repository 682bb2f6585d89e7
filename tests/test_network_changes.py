"""Tests of pages and tests that change the network wait for each other, and only for each other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import permutations

import pytest

from tests.network_changes import changing, unchanged
from tests.patience import PATIENCE

Side = Callable[[], AbstractContextManager[None]]


@pytest.mark.parametrize("side", [unchanged, changing], ids=["pages", "changes"])
def test_any_number_of_one_kind_run_side_by_side(side: Side) -> None:
    with side(), side(), side():
        pass


@pytest.mark.parametrize(("first", "second"), list(permutations([unchanged, changing])), ids=["pages", "changes"])
def test_the_other_kind_waits(first: Side, second: Side) -> None:
    here, there = threading.Semaphore(0), 0

    def enter() -> None:
        nonlocal there
        for _ in range(100):
            with second():
                there += 1
            here.release()

    others = [threading.Thread(target=enter) for _ in range(3)]
    for other in others:
        other.start()
    for _ in range(100):
        with first():
            before = there
            with first():
                assert there == before
        here.acquire(timeout=PATIENCE)
    for other in others:
        other.join(PATIENCE)

    assert there == 300
