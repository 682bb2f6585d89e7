"""The options of a request as methods get them: all fields of its struct, with their types, defaults and order."""

from __future__ import annotations

import inspect
from types import MappingProxyType
from typing import Annotated

import pytest

from aiosched.core.requests.options import NEEDED, options, options_of
from aiosched.core.requests.requests import (
    BackfillCreate,
    CancelRun,
    Clear,
    EmitAsset,
    Help,
    MarkTask,
    MarkTasks,
    Trigger,
)
from aiosched.core.requests.stored import checked
from aiosched.errors import Refused


class Face:
    """Who offers requests: each method returns what it was given."""

    @options_of(Clear)
    def clear(self, dag_id: str, request: Clear) -> tuple[str, Clear]:
        return dag_id, request

    @options_of(EmitAsset)
    def emit(self, request: EmitAsset) -> EmitAsset:
        return request

    @options_of(Trigger, triggered_by="test")
    def trigger(self, dag_id: str, request: Trigger) -> Trigger:
        """Create a run."""
        return request

    @options_of(MarkTask)
    async def mark_task(self, dag_id: str, request: MarkTask) -> MarkTasks:
        return request.of_many()


def test_a_method_has_the_options_of_its_request() -> None:
    assert Face().clear("sales", ["r"], only_failed=True) == ("sales", Clear(run_ids=("r",), only_failed=True))
    assert Face().clear(dag_id="sales", run_ids=None, reason="late") == ("sales", Clear(reason="late"))  # type: ignore[call-arg]
    assert Face().emit("orders", {"n": 1}) == EmitAsset("orders", extra={"n": 1})


async def test_a_method_can_be_a_coroutine() -> None:
    found = await Face().mark_task("sales", "r", "load", "failed", past=True)

    assert found == MarkTasks(("r",), task_ids=("load",), state="failed", past=True)


def test_a_field_that_is_added_is_offered_at_once() -> None:
    class Later(Clear, frozen=True, kw_only=True):
        gently: Annotated[bool, Help("Gently.")] = False

    class More:
        @options_of(Later)
        def clear(self, dag_id: str, request: Later) -> Later:
            return request

    assert More().clear("sales", gently=True).gently
    assert list(inspect.signature(More.clear).parameters)[-4:] == ["gently", "dry_run", "reason", "key"]


def test_a_face_has_defaults_of_its_own() -> None:
    assert Face().trigger("sales").triggered_by == "test"
    assert inspect.signature(Face.trigger).parameters["triggered_by"].default == "test"
    assert Face.trigger.__doc__ == "Create a run."


def test_none_means_the_default() -> None:
    assert Face().trigger("sales", conf=None).conf == {}  # type: ignore[arg-type]


def test_an_option_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(TypeError, match="only_filed"):
        Face().clear("sales", only_filed=True)  # type: ignore[call-arg]


def test_lists_and_mappings_are_kept_as_tuples_and_dicts() -> None:
    assert Clear(["a"], task_ids=["b"]) == Clear(("a",), task_ids=("b",))
    assert type(EmitAsset("orders", MappingProxyType({"n": 1})).extra) is dict


def test_help_and_limits_stand_in_the_struct() -> None:
    by_name = {option.name: option for option in options(BackfillCreate)}

    assert (by_name["max_active_runs"].help.ge, by_name["max_active_runs"].help.le) == (1, 10_000)
    assert by_name["first"].default is NEEDED
    assert by_name["first"].stored == "from"
    assert all(option.help.text for option in options(Clear) if option.name != "run_ids")


def test_a_word_is_checked_and_the_reason_kept() -> None:
    marked = checked(MarkTasks(("r",), state="failed", reason="late"))

    assert (marked.state, marked.reason) == ("failed", "late")
    with pytest.raises(Refused, match="'state' is 'done'; give success, failed or skipped"):
        checked(MarkTasks(("r",), state="done"))
    assert checked(CancelRun("r")) == CancelRun("r")
