"""How long a take-over took, from made-up histories."""

from __future__ import annotations

import pytest

from tests.faults.campaign.history import Incarnation, Lease, Read
from tests.faults.campaign.measures import Blow, percentile, takeover_seconds
from tests.faults.checker import Change, History, TaskKey

TASK = TaskKey("d", "r", "a")


def taken_over(*, ended: float = 11.0, decided: float = 11.6) -> Read:
    """Incarnation 1 (pid 7) joined at 0 and was taken over by 2; one attempt of DAG d was under way."""
    changes = [
        Change(1, 1, 9.0, TASK, None, "queued", 0, 1),
        Change(2, 2, decided, TASK, "queued", "queued", 1, 2),
        Change(3, 3, 30.0, TASK, "queued", "queued", 2, 3),  # lost once more, much later
    ]
    leases = [Lease(1.0, 5, None, 1), Lease(ended, 5, 1, None), Lease(ended + 0.3, 5, None, 2)]
    lives = [Incarnation(1, 7, 0.0, ended, "taken over"), Incarnation(2, 8, 0.0)]
    return Read(History(changes=changes), leases, lives, {"d": 5})


def test_a_take_over_lasts_until_the_new_owner_has_decided_about_what_was_under_way() -> None:
    assert takeover_seconds(taken_over(), [Blow(7, 10.0)]) == [pytest.approx(1.6)]


def test_a_scheduler_without_attempts_is_taken_over_when_its_partitions_have_an_owner() -> None:
    assert takeover_seconds(taken_over(), [Blow(7, 8.0)]) == [pytest.approx(3.3)]


@pytest.mark.parametrize(
    "blow",
    [
        pytest.param(Blow(9, 10.0), id="no scheduler"),
        pytest.param(Blow(7, 10.0, until=10.5), id="it woke up in time"),
        pytest.param(Blow(7, 12.0), id="it was over already"),
    ],
)
def test_a_blow_that_cost_no_lease_is_not_measured(blow: Blow) -> None:
    assert takeover_seconds(taken_over(), [blow]) == []


def test_a_percentile_is_one_of_the_values() -> None:
    assert [percentile([3.0, 1.0, 2.0], share) for share in (0.01, 0.5, 0.99)] == [1.0, 2.0, 3.0]
    assert percentile([], 0.99) == 0.0
