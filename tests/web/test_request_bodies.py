"""Bodies that are made from requests: a field of the struct is a field of the body, with its limits."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Annotated

import pytest
from pydantic import ValidationError

from aiosched.core.requests.requests import BackfillCreate, Clear, Help, MarkTask
from aiosched.core.values.states import TaskState
from aiosched.web.api.backfills import NewBackfill
from aiosched.web.api.base.bodies import body_of, request_of, with_options
from aiosched.web.api.base.models import Body


class Later(Clear, frozen=True, kw_only=True):
    """Clear, with a field that was added."""

    at_most: Annotated[int | None, Help("", ge=1, le=9)] = None


@with_options(Later, without=("pattern",))
class LaterBody(Body):
    """The body of `Later`."""

    map_index: int = 7


def test_a_field_that_is_added_is_taken_at_once() -> None:
    body = LaterBody.model_validate({"run_ids": ["r"], "at_most": 3, "from_date": "2026-01-01"})

    assert request_of(Later, body) == Later(("r",), at_most=3, first=date(2026, 1, 1), map_index=7)
    assert LaterBody.__doc__ == "The body of `Later`."


@pytest.mark.parametrize(
    "given", [{"at_most": 10}, {"pattern": "a"}, {"run_ids": [""]}, {"reason": "x" * 501}], ids=str
)
def test_limits_are_those_of_the_struct(given: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        LaterBody.model_validate(given)


@pytest.mark.parametrize(
    "request_",
    [
        BackfillCreate(date(2026, 1, 1), datetime(2026, 2, 1, tzinfo=UTC), rerun="all", conf={"n": 1}, reason="late"),
        BackfillCreate(date(2026, 1, 1), date(2026, 1, 1), dry_run=True),
    ],
    ids=["all", "defaults"],
)
def test_the_api_takes_what_the_client_sends(request_: BackfillCreate) -> None:
    body = NewBackfill.model_validate({"dag_id": "sales", **body_of(request_)})

    assert request_of(BackfillCreate, body) == request_


def test_what_stands_in_the_address_is_left_out() -> None:
    mark = MarkTask("r", "load", TaskState.FAILED, past=True)

    assert body_of(mark, without=("run_id", "task_id")) == {"state": "failed", "past": True}
