"""A test session ends what killed sessions have left, and touches nothing of those that run beside it."""

from __future__ import annotations

import os
import time

import pytest

from tests import conftest


def old(path: os.PathLike[str]) -> None:
    long_ago = time.time() - 100_000
    os.utime(path, (long_ago, long_ago))


def test_the_folder_of_a_session_that_lives_stays_however_old_it_is() -> None:
    folder = conftest.short_folder()
    old(folder)
    old(conftest._lock_of(folder))

    conftest._end_leftovers()

    assert folder.is_dir()
    folder.rmdir()


def test_the_folder_of_a_session_that_was_killed_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conftest, "_locks", locks := [])
    folder = conftest.short_folder()
    lock = conftest._lock_of(folder)
    locks[0].close()  # as the end of its process does
    old(lock)

    conftest._end_leftovers()

    assert not folder.exists()
    assert not lock.exists()
