"""Whose code the tries of a run have run."""

from __future__ import annotations

from aiosched.core.graph.instances import Instance
from aiosched.core.run.code import RunCode


def code(newest: str | None = "new", *, pinned: str | None = "old") -> RunCode:
    return RunCode(run=7, pinned=pinned, newest=newest, version_id=2 if newest != pinned else None)


def test_the_code_of_its_own_version_is_not_written_down() -> None:
    run, instance = code("old"), Instance(0, try_number=1)

    assert run.begins(instance) is None
    assert run.ended(instance, "old") is None
    assert not run.superseded


def test_the_code_of_a_newer_version_is_written_down_once_a_try() -> None:
    run, instance = code(), Instance(3, 1, try_number=1)

    assert run.begins(instance) == (7, 3, 1, 1, 2, "new")
    assert run.begins(instance) is None  # the same try is called again
    assert run.ended(instance, "new") is None

    instance.try_number = 2
    assert run.begins(instance) == (7, 3, 1, 2, 2, "new")
    assert not run.superseded  # the try before ran the same


def test_a_worker_that_ran_something_else_is_believed() -> None:
    run, instance = code("old"), Instance(0, try_number=1)

    run.begins(instance)

    assert run.ended(instance, "newer than parsed") == (7, 0, -1, 1, None, "newer than parsed")


def test_a_worker_whose_folder_lags_behind_ran_the_code_of_the_runs_version() -> None:
    run, instance = code(), Instance(0, try_number=1)

    run.begins(instance)

    assert run.ended(instance, "old") == (7, 0, -1, 1, None, "old")


def test_a_retry_knows_that_its_code_is_newer() -> None:
    run, instance = code("old"), Instance(0, try_number=1)
    run.begins(instance)
    run.newest, run.version_id, instance.try_number = "new", 2, 2

    assert run.begins(instance) == (7, 0, -1, 2, 2, "new")
    assert run.superseded == {instance: "old"}


def test_a_retry_with_reverted_code_knows_it_too() -> None:
    run, instance = code(), Instance(0, try_number=1)
    run.begins(instance)
    run.newest, instance.try_number = "old", 2

    assert run.begins(instance) is None  # it runs what its version says
    assert run.superseded == {instance: "new"}


def test_a_try_whose_code_is_reverted_between_two_calls_ran_the_code_of_its_version() -> None:
    run, instance = code(), Instance(0, try_number=1)
    run.begins(instance)
    run.newest = "old"

    assert run.begins(instance) == (7, 0, -1, 1, 2, "old")
