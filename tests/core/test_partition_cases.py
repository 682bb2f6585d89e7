"""What Airflow 3.3.2 answers to the same questions about partition keys: recorded as data in partition_cases.json.

Left out: fan-outs to the hours of a day that loses one, which differ (docs/semantics.md).
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiosched.core.timetables import CronPartitionTimetable
from aiosched.core.timetables.key_mappers import AnyMapper

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "partition_cases.json").read_text())
OF_MAPPERS = [case for case in CASES if "mapper" in case]
OF_CLOCKS = [case for case in CASES if "timetable" in case]


def answer_of(case: dict[str, Any]) -> object:
    mapper = msgspec.convert(case["mapper"], AnyMapper)
    found = getattr(mapper, case["asks"])(case["key"])
    if isinstance(found, datetime):
        return found.astimezone(UTC).isoformat()
    return (
        found if isinstance(found, str) or found is None else sorted(found) if isinstance(found, frozenset) else found
    )


@pytest.mark.parametrize("asks", ["to_downstream", "to_upstream", "to_partition_date"])
def test_mappers_answer_as_airflow_does(asks: str) -> None:
    cases = [case for case in OF_MAPPERS if case["asks"] == asks]
    assert len(cases) > 50
    for case in cases:
        if case.get("refused"):
            with pytest.raises(ValueError):
                answer_of(case)
        else:
            assert answer_of(case) == case["answer"], case


def test_clocks_answer_as_airflow_does() -> None:
    for case in OF_CLOCKS:
        timetable = msgspec.convert(case["timetable"], CronPartitionTimetable)
        found = timetable.partition_at(datetime.fromisoformat(case["tick"]))
        assert (found.key, found.date) == (case["key"], datetime.fromisoformat(case["date"])), case
