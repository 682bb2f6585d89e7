"""What the poison campaign makes of what it finds, from made-up findings."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from tests.faults.campaign.naming import NOWHERE, Mark, Names, names_of
from tests.faults.campaign.poison_round import JUDGED_PAIRS, judge_lag
from tests.faults.campaign.results import Result

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
BEFORE, AFTER = NOON - timedelta(seconds=1), NOON + timedelta(seconds=1)


@pytest.mark.parametrize(
    ("mark", "names", "expected"),
    [
        ({"command": 5}, Names(answered=frozenset({5})), "named by an answer"),
        ({"command": 5}, Names(), NOWHERE),
        ({"file": "a.py"}, Names(files={"a.py": True}), "named by an import error"),
        ({"file": "a.py"}, Names(files={"a.py": False}), "harmless: a file like any other"),
        ({}, Names(), "about no single DAG"),
        ({"dag_id": "d"}, Names(quarantined={"d": AFTER}), "named by a quarantine"),
        ({"dag_id": "d"}, Names(logged={"d": AFTER}), "named by the log"),
        ({"dag_id": "d"}, Names(ended={"d": AFTER}), "harmless: its DAG goes on"),
        ({"dag_id": "d"}, Names(explained=frozenset({"d"})), "named by why"),
        ({"dag_id": "d"}, Names(logged={"d": BEFORE}, ended={"d": BEFORE}), NOWHERE),
        ({"dag_id": "d"}, Names(logged={"e": AFTER}), NOWHERE),
    ],
)
def test_a_poison_has_the_name_that_came_after_it(mark: dict[str, object], names: Names, expected: str) -> None:
    assert names.of(Mark(1, "there", NOON, **mark)) == expected  # type: ignore[arg-type]


def test_only_the_last_content_of_a_file_needs_a_name() -> None:
    marks = [Mark(n, "there", NOON, file="a.py") for n in (1, 2)]

    assert [name for _, name in names_of(Names(files={"a.py": True}), marks)] == [
        "replaced by a later one",
        "named by an import error",
    ]


@pytest.mark.parametrize(
    ("calm", "poisoned", "pairs", "passes"),
    [
        pytest.param(0.2, 0.39, JUDGED_PAIRS, True, id="less than twice"),
        pytest.param(0.2, 0.41, JUDGED_PAIRS, False, id="more than twice"),
        pytest.param(0.01, 0.09, JUDGED_PAIRS, True, id="too short to tell"),
        pytest.param(0.2, 0.9, JUDGED_PAIRS - 1, True, id="too few windows"),
    ],
)
def test_twice_the_lag_is_too_much(calm: float, poisoned: float, pairs: int, passes: bool) -> None:
    result, seen = Result("poison", "python -m …", seed=1, tasks=10), Counter[str]()

    judge_lag([[calm]] * pairs, [[poisoned]] * pairs, seen, result)

    assert (not result.violations) is passes
    assert seen["poisoned p99 ms"] == round(poisoned * 1000)


def test_a_pause_of_the_machine_spoils_one_window_and_not_the_result() -> None:
    result = Result("poison", "python -m …", seed=1, tasks=10)

    judge_lag([[0.2]] * JUDGED_PAIRS, [[9.0], *[[0.2]] * (JUDGED_PAIRS - 1)], Counter(), result)

    assert not result.violations
