"""Failures with the same error are one group, whatever numbers and ids are in their texts."""

from __future__ import annotations

from aiosched.core.why.error_groups import FailedInstance, group_errors


def failure(dag_id: str, reason: str | None) -> FailedInstance:
    return FailedInstance(dag_id, "r", "load", -1, reason)


def test_errors_that_differ_in_numbers_and_ids_are_one_group() -> None:
    groups = group_errors(
        [
            failure("b", "KeyError: 'x'"),
            failure("b", "ValueError: row 17 of 3f2a9c1e-77aa is bad"),
            failure("a", "ValueError: row 4 of 0b2a9c1e-11aa is bad"),
            failure("a", None),
            failure("a", "ValueError: row 9 of 0b2a9c1e-11aa is bad"),
        ],
        most=2,
    )

    assert [(each.number, each.newest.reason, each.dags) for each in groups] == [
        (3, "ValueError: row 17 of 3f2a9c1e-77aa is bad", ["a", "b"]),
        (1, "KeyError: 'x'", ["b"]),
    ]
    assert [each.search for each in groups] == ["ValueError: row", "KeyError: 'x'"]


def test_a_text_of_numbers_is_searched_as_it_is() -> None:
    (group,) = group_errors([failure("a", "1: 2")], most=8)

    assert group.search == "1: 2"
