"""Partitions and run ids. Source: the semantics reference, section 11.6 and decision 5."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.values.ids import (
    ALLOWED_RUN_ID,
    PARTITIONS,
    check_new_name,
    key_fault,
    make_run_id,
    partition_of,
    read_instance_name,
    short_run_id,
)
from aiosched.core.values.states import RunType
from aiosched.errors import Refused

LOGICAL = datetime(2026, 1, 1, tzinfo=UTC)
AFTER = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@given(st.text())
def test_a_partition_is_always_the_same_number_below_64(name: str) -> None:
    assert partition_of(name) == partition_of(name)
    assert 0 <= partition_of(name) < PARTITIONS == 64


def test_partitions_are_fixed_for_ever() -> None:
    assert [partition_of(name) for name in ("sales", "refunds", "a/b.py")] == [4, 25, 5]


def test_a_thousand_dags_reach_every_partition() -> None:
    assert {partition_of(f"dag_{n}") for n in range(1000)} == set(range(PARTITIONS))


@pytest.mark.parametrize(
    ("run_type", "run_id"),
    [
        (RunType.SCHEDULED, "scheduled__2026-01-01T00:00:00+00:00"),
        (RunType.BACKFILL, "backfill__2026-01-01T00:00:00+00:00"),
        (RunType.MANUAL, "manual__2026-01-02T03:04:05+00:00"),
    ],
)
def test_a_run_id_names_its_type_and_instant(run_type: RunType, run_id: str) -> None:
    """Section 34, decision 5."""
    assert make_run_id(run_type, logical_date=LOGICAL, run_after=AFTER) == run_id


@pytest.mark.parametrize("run_type", [RunType.MANUAL, RunType.ASSET_TRIGGERED])
def test_without_a_logical_date_a_run_id_names_the_run_after_and_a_suffix(run_type: RunType) -> None:
    """Section 34, decision 5."""
    ids = {make_run_id(run_type, logical_date=None, run_after=AFTER) for _ in range(5)}

    assert len(ids) == 5, "two runs of one instant have two ids"
    assert all(run_id.startswith(f"{run_type}__2026-01-02T03:04:05+00:00_") for run_id in ids)


def test_run_ids_are_in_utc() -> None:
    amsterdam = timezone(timedelta(hours=1))

    run_id = make_run_id(RunType.SCHEDULED, logical_date=LOGICAL.astimezone(amsterdam), run_after=AFTER)

    assert run_id == "scheduled__2026-01-01T00:00:00+00:00"


@pytest.mark.parametrize("run_type", list(RunType))
@pytest.mark.parametrize("logical", [None, LOGICAL])
def test_our_own_run_ids_are_allowed_ones(run_type: RunType, logical: datetime | None) -> None:
    assert ALLOWED_RUN_ID.match(make_run_id(run_type, logical_date=logical, run_after=AFTER))


@pytest.mark.parametrize(
    ("key", "allowed"),
    [
        ("group.task-1_x", True),
        ("...", True),
        ("", False),
        ("a b", False),
        ("x" * 251, False),
        (".", False),
        ("..", False),
        ("a\n", False),
        ("données", True),
        ("任务.加载", True),
        ("ไทย", True),
        ("١٢٣", True),
        ("𠀀" * 250, True),
        ("𠀀" * 251, False),
        ("a\u200bb", False),  # a space without width
        ("\u200fאב", False),  # a mark of direction
        ("a\u202eb", False),
        ("🚀", False),
        ("a\ud800", False),
    ],
)
def test_keys_are_letters_and_digits_of_any_script(key: str, allowed: bool) -> None:
    assert (key_fault(key) is None) is allowed


@pytest.mark.parametrize("text", ["données", "한국", "Å", "ガ"])
def test_of_two_keys_that_look_the_same_one_is_allowed(text: str) -> None:
    twin = unicodedata.normalize("NFD", text)

    assert key_fault(text) is None
    assert twin != text
    assert "unicodedata.normalize('NFC', …)" in (key_fault(twin) or "")


def test_a_sign_that_is_written_as_a_letter_is_not_a_letter() -> None:
    assert "unicodedata.normalize('NFC', …)" in (key_fault("\u212b") or ""), "the unit, not the letter"


@pytest.mark.parametrize("filler", ["\u115f", "\u1160", "\u3164", "\uffa0"])
def test_a_letter_that_shows_nothing_is_in_no_key(filler: str) -> None:
    assert f"U+{ord(filler):04X}" in (key_fault(f"a{filler}") or "")


@pytest.mark.parametrize(
    ("run_id", "short"),
    [
        ("scheduled__2026-01-01T06:00:00+00:00", "2026-01-01T06:00"),
        ("scheduled__2026-01-01T06:00:30+00:00", "2026-01-01T06:00:30"),
        ("manual__2026-01-01T06:00:00.123456+00:00_1f3c9a02", "1f3c9a02"),
        ("asset_triggered__2026-01-01T06:00:00+00:00_1f3c9a02", "1f3c9a02"),
        ("my-own-run", "my-own-run"),
    ],
)
def test_a_run_id_has_a_short_form(run_id: str, short: str) -> None:
    assert short_run_id(run_id) == short


@pytest.mark.parametrize(
    ("name", "index", "expected"),
    [
        ("load", None, ("load", None)), ("load", 3, ("load", 3)), ("load[3]", None, ("load", 3)),
        ("load[3]", -1, ("load", 3)), ("load[3]", 3, ("load", 3)), ("g.load[0]", None, ("g.load", 0)),
        ("load[-1]", None, ("load[-1]", None)), ("load[x]", None, ("load[x]", None)),
    ],
)  # fmt: skip
def test_the_name_of_a_task_instance_is_read(name: str, index: int | None, expected: tuple[str, int | None]) -> None:
    assert read_instance_name(name, index) == expected


@pytest.mark.parametrize("name", ["a/b", "a b", "...", "a/..", "/", "queue", "x/queues", "é"])
def test_a_name_that_an_address_can_have_is_allowed(name: str) -> None:
    check_new_name("pool", name, endings=("/queue",))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("..", "The pool '..' is a step in a path, so no address could name it: choose another."),
        (".", "is a step in a path"),
        ("  ", "The pool '  ' begins or ends with a space, which cannot be seen: choose another."),
        (" a", "begins or ends with a space"),
        ("a ", "begins or ends with a space"),
        (
            "a/queue",
            "The pool 'a/queue' ends in '/queue', so its address would be that of something else: choose another.",
        ),
        ("/queue", "ends in '/queue'"),
    ],
)
def test_a_name_that_no_address_can_have_is_refused(name: str, message: str) -> None:
    with pytest.raises(Refused, match=re.escape(message)):
        check_new_name("pool", name, endings=("/queue",))
