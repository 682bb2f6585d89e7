"""When asset events let a DAG run, as rules.

Source: the semantics reference, sections 14.3, 15.3 and 15.4; the table of 15.3 is spelled out here.
"""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.assets.conditions import (
    AliasRequired,
    AllRequired,
    AnyRequired,
    AssetExpression,
    AssetId,
    AssetReference,
    AssetRequired,
    AssetStatus,
    QueuedAsset,
    ReferenceRequired,
    consumed_after,
    is_met,
    leaves,
    triggering_instant,
    why_not_triggered,
)
from aiosched.core.creation.run_creation import asset_run
from aiosched.core.graph.spec import AssetRef, DagSpec, TaskSpec, asset_references, decode_spec, encode_spec
from aiosched.core.timetables import AssetOrTimeSchedule, AssetTriggeredTimetable, OnceTimetable
from aiosched.core.values.states import RunType

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
A, B, C = AssetRequired("a"), AssetRequired("b", "s3://b"), AssetRequired("c")


def asset_ids(*names: str) -> list[AssetId]:
    return [AssetId(name, f"s3://{name}") for name in names]


def row(name: str, at: datetime = NOON) -> QueuedAsset:
    return QueuedAsset(ord(name), AssetId(name), at)


@pytest.mark.parametrize(
    ("condition", "queued", "expected"),
    [
        (A, "a", True),
        (A, "b", False),
        (AllRequired((A, B)), "a", False),
        (AllRequired((A, B)), "ab", True),
        (AnyRequired((A, B)), "", False),
        (AnyRequired((A, B)), "b", True),
        (AnyRequired((AllRequired((A, B)), C)), "c", True),
        (AnyRequired((AllRequired((A, B)), C)), "b", False),
        (AllRequired((AnyRequired((A, B)), C)), "bc", True),
        (ReferenceRequired(name="a"), "a", True),
        (ReferenceRequired(uri="s3://b"), "b", True),
        (ReferenceRequired(uri="s3://b"), "a", False),
        (AliasRequired("late"), "ab", True),
        (AliasRequired("late"), "a", False),
        (AliasRequired("leads nowhere"), "abc", False),
    ],
    ids=str,
)
def test_a_condition_is_met_as_the_reference_says(condition: AssetExpression, queued: str, expected: bool) -> None:
    assert is_met(condition, asset_ids(*queued), {"late": {"b", "x"}}) is expected


expressions = st.recursive(
    st.sampled_from(["a", "b", "c", "d"]).map(AssetRequired),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(lambda members: AllRequired(tuple(members)))
        | st.lists(inner, min_size=1, max_size=3).map(lambda members: AnyRequired(tuple(members)))
    ),
    max_leaves=8,
)


@given(expressions, st.sets(st.sampled_from("abcd")), st.sets(st.sampled_from("abcd")))
def test_more_news_never_makes_a_condition_unmet(condition: AssetExpression, some: set[str], others: set[str]) -> None:
    if is_met(condition, asset_ids(*some)):
        assert is_met(condition, asset_ids(*(some | others)))


@given(expressions)
def test_news_of_every_asset_meets_any_condition_and_none_meets_no_condition(condition: AssetExpression) -> None:
    everything = {leaf.name for leaf in leaves(condition)}

    assert is_met(condition, asset_ids(*everything))
    assert not is_met(condition, [])


@given(expressions)
def test_a_condition_survives_the_serialized_dag(condition: AssetExpression) -> None:
    for timetable in (AssetTriggeredTimetable(condition), AssetOrTimeSchedule(OnceTimetable(), condition)):
        spec = DagSpec(dag_id="d", timetable=timetable)

        assert decode_spec(encode_spec(spec)) == spec


READY = AssetStatus(condition=A, active_runs=0, max_active_runs=1)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, None),
        ({"condition": None}, "not scheduled on assets"),
        ({"is_paused": True}, "paused"),
        ({"is_stale": True}, "no DAG file"),
        ({"has_import_errors": True}, "cannot be imported"),
        ({"condition": AllRequired((A, B))}, "waits for a & b"),
        ({"active_runs": 1}, "max_active_runs=1 reached: 1 runs are queued or running"),
        ({"max_active_runs": 0}, "max_active_runs=0"),
    ],
)
def test_what_keeps_a_dag_from_its_run_is_said(change: dict[str, Any], reason: str | None) -> None:
    told = why_not_triggered(dataclasses.replace(READY, **change), [row("a")])

    assert told is None if reason is None else reason in (told or "")


def test_the_triggering_instant_is_that_of_the_newest_queue_row_in_utc() -> None:
    later = (NOON + timedelta(minutes=1)).astimezone(timezone(timedelta(hours=2)))

    instant = triggering_instant([row("a"), row("b", later), row("c")])

    assert (instant, instant.tzinfo) == (NOON + timedelta(minutes=1), UTC)


@pytest.mark.parametrize(
    ("previous", "catchup", "expected"),
    [(None, False, NOON), (None, True, None), (NOON + timedelta(hours=1), True, NOON + timedelta(hours=1))],
)
def test_events_belong_to_a_run_from_the_run_before_it_on(
    previous: datetime | None, catchup: bool, expected: datetime | None
) -> None:
    assert consumed_after(previous, scheduled_at=NOON, catchup=catchup) == expected


def test_an_asset_run_has_no_date_and_an_id_of_its_own() -> None:
    first, second = asset_run(NOON), asset_run(NOON)

    assert (first.run_type, first.logical_date, first.interval) == (RunType.ASSET_TRIGGERED, None, None)
    assert first.run_id.startswith("asset_triggered__2026-01-01T12:00:00+00:00_")
    assert first.run_id != second.run_id


def test_every_mention_of_an_asset_is_found_once() -> None:
    spec = DagSpec(
        dag_id="d",
        timetable=AssetTriggeredTimetable(AnyRequired((A, AllRequired((A, AliasRequired("late")))))),
        tasks=(
            TaskSpec(task_id="t", operator="O", inlets=(AssetRef(name="s3://x", kind="uri"),)),
            TaskSpec(task_id="u", operator="O", outlets=(AssetRef(name="b", uri="s3://b", extra={"x": 1}),)),
        ),
    )

    assert asset_references(spec) == (
        AssetReference("schedule", "asset", "a", "a"),
        AssetReference("schedule", "alias", "late"),
        AssetReference("inlet", "uri", "s3://x", "", "t"),
        AssetReference("outlet", "asset", "b", "s3://b", "u", {"x": 1}),
    )


def test_a_document_of_another_kind_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_spec(b'{"dag_id": "d", "timetable": {"kind": "assets", "condition": {"kind": "some"}}}')
