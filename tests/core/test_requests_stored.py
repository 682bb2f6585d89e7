"""Requests as they are stored: what is written is read again, as others write it, too."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import msgspec
import pytest

from aiosched.core.creation.backfills import Rerun
from aiosched.core.requests.requests import (
    BackfillCreate,
    BackfillPause,
    CancelRun,
    Clear,
    EmitAsset,
    MarkRun,
    MarkTasks,
    Pause,
    Request,
    SetNote,
    SetSchedule,
    Trigger,
)
from aiosched.core.requests.stored import REQUESTS, decode, encode
from aiosched.core.values.states import RunState, TaskState
from aiosched.errors import Refused

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "request_",
    [
        Trigger(),
        Trigger(conf={"n": [1, None]}, logical_date=NEW_YEAR, run_id="r", run_after=NEW_YEAR, unpause=True),
        Pause(),
        CancelRun(run_id="r"),
        EmitAsset(name="a", extra={"k": "v"}),
        Clear(run_ids=(), task_ids=("a", "b"), map_index=0, only_failed=True, dry_run=True),
        Clear(first=NEW_YEAR, final=NEW_YEAR, pattern="^a"),
        Clear(first=date(2026, 1, 1), final=NEW_YEAR),
        MarkTasks(run_ids=("r",), state=TaskState.SKIPPED),
        MarkRun(run_id="r", state=RunState.QUEUED),
        SetNote(run_id="r", note="", task_id="t", map_index=-1),
        BackfillCreate(first=NEW_YEAR, final=NEW_YEAR, rerun=Rerun.ALL, max_active_runs=3),
        BackfillCreate(first=date(2026, 1, 1), final=date(2026, 1, 31)),
        BackfillPause(id=7),
        SetSchedule(name="n", every=0.5, conf={"n": 1}, start=NEW_YEAR, paused=False),
        Trigger(unique="k", debounce=1.5, expires=NEW_YEAR),
    ],
    ids=repr,
)
def test_what_is_stored_is_read_again(request_: Request) -> None:
    verb, args = encode(request_)

    assert decode(verb, msgspec.json.decode(msgspec.json.encode(args))) == request_


def test_the_names_of_stored_arguments_stay() -> None:
    verb, args = encode(Clear(first=NEW_YEAR, final=NEW_YEAR, run_ids=("r",)))

    assert (verb, args) == (
        "clear",
        {"from": "2026-01-01T00:00:00+00:00", "to": "2026-01-01T00:00:00+00:00", "run_ids": ("r",)},
    )


@pytest.mark.parametrize(
    ("verb", "args", "read"),
    [
        ("trigger", {"conf": None, "run_id": None, "unpause": 1}, Trigger(unpause=True)),
        (
            "trigger",
            {"logical_date": "2026-01-01T00:00:00Z", "later": None, "more": False},
            Trigger(logical_date=NEW_YEAR),
        ),
        ("clear", {"run_ids": None, "only_failed": "yes", "past": 0, "dry_run": None}, Clear(only_failed=True)),
        (
            "backfill_create",
            {"from": "2026-01-01T00:00:00+00:00", "to": "2026-01-01T00:00:00+00:00", "rerun": "completed"},
            BackfillCreate(first=NEW_YEAR, final=NEW_YEAR, rerun=Rerun.ALL),
        ),
    ],
)
def test_what_is_missing_or_null_has_its_default_and_a_flag_is_any_value(
    verb: str, args: dict[str, Any], read: Request
) -> None:
    assert decode(verb, args) == read


@pytest.mark.parametrize(
    ("verb", "args", "told"),
    [
        ("cancel_run", {}, "cancel_run: unusable arguments: 'run_id' is missing; give text."),
        ("trigger", {"conf": [1]}, "trigger: unusable arguments: 'conf' is '[1]'; give a JSON object."),
        ("clear", {"run_ids": "r"}, "clear: unusable arguments: 'run_ids' is 'r'; give a list of texts."),
        ("clear", {"map_index": True}, "clear: unusable arguments: 'map_index' is 'True'; give a whole number."),
        (
            "clear",
            {"from": 5},
            (
                "clear: unusable arguments: 'from' is '5'; "
                "give a day like 2026-01-31, or an instant like 2026-01-31T00:00:00+00:00."
            ),
        ),
        (
            "schedule_set",
            {"name": "s", "every": float("nan")},
            "schedule_set: unusable arguments: 'every' is 'nan'; give a number of seconds.",
        ),
        (
            "mark_tasks",
            {"state": ["failed"]},
            "mark_tasks: unusable arguments: 'state' is \"['failed']\"; give success, failed or skipped.",
        ),
        (
            "backfill_create",
            {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z", "rerun": "sometimes"},
            "backfill_create: unusable arguments: 'rerun' is 'sometimes'; give missing, failed or all.",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_and_says_what_to_give(verb: str, args: dict[str, Any], told: str) -> None:
    with pytest.raises(Refused) as refused:
        decode(verb, args)

    assert (str(refused.value), refused.value.exit_code) == (told, 2)


def test_an_unknown_argument_is_refused_because_without_it_this_would_be_another_request() -> None:
    with pytest.raises(
        Refused, match=r"clear: unknown arguments: only_on_sundays; known are dependents, .*If a newer"
    ) as refused:
        decode("clear", {"task_ids": ["a"], "only_on_sundays": True})

    assert refused.value.exit_code == 4


def test_arguments_that_are_no_object_are_refused() -> None:
    with pytest.raises(Refused, match="pause: unusable arguments: a JSON object is needed"):
        decode("pause", [1])


def test_an_unknown_verb_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(Refused, match="no request 'explode'; known are answer_input, ") as refused:
        decode("explode", {})

    assert refused.value.exit_code == 4
    assert len(REQUESTS) == 22


@pytest.mark.parametrize("args", [None, [], "", "run_id", 3, True])
def test_arguments_that_are_no_json_object_are_refused(args: Any) -> None:
    with pytest.raises(Refused, match="pause: unusable arguments: a JSON object is needed"):
        decode("pause", args)
