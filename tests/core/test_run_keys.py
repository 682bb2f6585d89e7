"""At most so many runs at a time for each key: docs/semantics.md, "Runs by key"."""

from __future__ import annotations

from typing import Any

import pytest

from aiosched.core.creation.run_creation import runs_to_start
from aiosched.core.creation.run_keys import KeyRoom, key_of
from aiosched.core.graph.instances import Run
from aiosched.core.graph.spec import RunKeySpec
from tests.core.queued_runs import NOW, a_run

TENANT = RunKeySpec(("tenant",))


@pytest.mark.parametrize(
    ("conf", "key"),
    [
        ({"tenant": "a"}, '"a"'),
        ({"tenant": 7}, "7"),
        ({"tenant": "7"}, '"7"'),
        ({"tenant": False}, "false"),
        ({"tenant": ""}, '""'),
        ({"tenant": {"b": 1, "a": 2}}, '{"a":2,"b":1}'),
        ({"tenant": None}, None),
        ({}, None),
        ({"other": 1}, None),
    ],
)
def test_the_key_is_the_json_of_the_value(conf: dict[str, Any], key: str | None) -> None:
    assert key_of(TENANT, conf) == key


@pytest.mark.parametrize("conf", [{"a": 1}, {"a": None}, {"a": ["b"]}, {"a": "b"}, {"a": {"c": 1}}])
def test_a_path_that_leads_nowhere_is_no_key(conf: dict[str, Any]) -> None:
    assert key_of(RunKeySpec(("a", "b")), conf) is None


def start(*queued: Run, most: int = 1, running: tuple[dict[str, Any], ...] = (), limit: int = 10) -> Any:
    room = KeyRoom(RunKeySpec(("tenant",), most), running)
    limits = {None: limit, 7: limit}
    return runs_to_start(queued, now=NOW, limits=limits, running={None: len(running)}, keys=room)


def test_runs_with_the_same_key_start_one_after_the_other_and_others_pass_them() -> None:
    decision = start(*(a_run(n, conf={"tenant": tenant}) for n, tenant in enumerate("aabac", 1)), a_run(6), a_run(7))

    assert [run.key for run in decision.started] == [1, 3, 5, 6, 7]
    assert decision.waiting == dict.fromkeys([2, 4], 'max_active_runs_per_key=1 reached: 1 running with tenant="a"')


def test_running_runs_and_those_of_backfills_count() -> None:
    decision = start(
        a_run(1, conf={"tenant": "a"}), a_run(2, conf={"tenant": "b"}, backfill_id=7),
        a_run(3, conf={"tenant": "b"}), most=2, running=({"tenant": "a"}, {"tenant": "a"}, {"tenant": "b"}),
    )  # fmt: skip

    assert [run.key for run in decision.started] == [3]


def test_what_the_key_holds_back_takes_no_place_under_the_limit_of_the_dag() -> None:
    decision = start(
        a_run(1, conf={"tenant": "a"}), a_run(2, conf={"tenant": "b"}), running=({"tenant": "a"},), limit=2
    )

    assert [run.key for run in decision.started] == [2]


def test_a_long_key_is_cut_in_the_reason() -> None:
    decision = start(a_run(1, conf={"tenant": "x" * 10_000}), a_run(2, conf={"tenant": "x" * 10_000}))

    assert len(decision.waiting[2]) < 200
