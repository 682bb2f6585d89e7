"""A run that is cleared and then has fewer values to map over goes on as a new run with these values would.

Source: the semantics reference, sections 5.1, 26.4 and 26.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from aiosched.core.graph.graph import Graph
from aiosched.core.graph.spec import Concatenated, MappingSpec, TaskOutput
from aiosched.core.graph.trigger_rules import TriggerRule
from aiosched.core.run.board import Board
from aiosched.core.values.messages import Outcome
from aiosched.core.values.states import TaskState
from tests.core.board_player import Ending
from tests.core.graph_builders import graph, in_a_mapped_group, mapped, over, setup, task, teardown
from tests.core.mapping_builders import at, begin, clear, finish, reread, seen

QUICK = ("all_success", "all_done", "one_failed", "all_done_min_one_success")  # one of each kind: test_trigger_rules
RULES = [
    pytest.param(rule, marks=() if rule in QUICK else pytest.mark.slow)
    for rule in sorted(set(TriggerRule) - {TriggerRule.ALL_DONE_SETUP_SUCCESS})
]
OVER_BOTH = MappingSpec(inputs=(Concatenated(inputs=(TaskOutput("m"), TaskOutput("q"))),))
M = mapped("m", "p", inputs=over("p"))
SHAPES = {
    "one behind it": lambda rule: graph(task("p"), M, task("c", "m", trigger_rule=rule)),
    "one behind it and another": lambda rule: graph(task("p"), task("q"), M, task("c", "m", "q", trigger_rule=rule)),
    "mapped behind it": lambda rule: graph(
        task("p"), M, mapped("c", "m", inputs=over(3), trigger_rule=_not_always(rule))
    ),
    "mapped over it": lambda rule: graph(
        task("p"), M, mapped("c", "m", inputs=over("m"), trigger_rule=_not_always(rule))
    ),
    "mapped over it and another": lambda rule: graph(
        task("p"), task("q"), M, mapped("c", "m", "q", inputs=OVER_BOTH, trigger_rule=_not_always(rule))
    ),
    "in a group": lambda rule: in_a_mapped_group(
        over("p"),
        task("m", "p"),
        task("n", "m", trigger_rule=_not_always(rule)),
        outside=(task("p"), task("c", "n", trigger_rule=rule)),
    ),
    "a setup": lambda rule: graph(
        task("p"),
        mapped("m", "p", inputs=over("p"), is_setup=True),
        task("n", "m"),
        task("c", "n", trigger_rule=rule),
        teardown("t", "m", "c"),
    ),
}


SHAPES["mapped over a task in a group"] = lambda rule: in_a_mapped_group(
    over("p"),
    task("m", "p"),
    task("n", "m", trigger_rule=_not_always(rule)),
    outside=(task("p"), mapped("c", "n", inputs=over("n"), trigger_rule=_not_always(rule))),
)
SHAPES["two chains"] = lambda rule: graph(
    task("p"), M, mapped("n", "m", inputs=over("m"), trigger_rule=_not_always(rule)),
    mapped("o", "n", "m", inputs=MappingSpec(inputs=(TaskOutput("n"), TaskOutput("m"))), trigger_rule="all_done"),
    task("c", "o", trigger_rule=rule),
)  # fmt: skip


def _not_always(rule: TriggerRule) -> TriggerRule:
    """Mapped tasks have no rule `always`."""
    return TriggerRule.ALL_DONE if rule is TriggerRule.ALWAYS else rule


def play(board: Board, length: int | Outcome, ending: Ending) -> Board:
    """To the end: `p` returns `length` values or ends so, `q` one; `m[0]` ends with `ending`, all others succeed."""
    while ready := [i for i in board if i.state is TaskState.SCHEDULED]:
        first = min(ready, key=lambda i: (i.task, i.map_index))
        name = board.graph.task_ids[first.task] + (f"[{first.map_index}]" if first.map_index >= 0 else "")
        if name == "p" and isinstance(length, Outcome):
            finish(board, name, ending=length)
            continue
        value = {"p": length, "q": 1, "m": 1, "n": 1}.get(name[0])
        finish(board, name, ending=ending if name == "m[0]" else Outcome.SUCCESS, value=value)
    return board


def ends(board: Board) -> tuple[dict[str, list[str]], Any, Any]:
    """The states of each task's instances in the end, without removed ones, and how the run ended."""
    found: dict[str, list[str]] = {}
    for name, state in seen(board).items():
        if state != "removed":
            found.setdefault(name.partition("[")[0], []).append(state)
    return found, board.run.state, board.run.reason


def cleared(compiled: Graph, lengths: Sequence[int | Outcome], ending: Ending, *, rebuilt: bool = False) -> Board:
    board = play(begin(compiled), lengths[0], Outcome.SUCCESS)
    for before, length in pairwise(lengths):
        values = {"q": 1, "m": 1, "n": 1} | ({} if isinstance(before, Outcome) else {"p": before})
        returned = [name for name, state in seen(board).items() if state == "success" and name[0] in values]
        clear(board, *seen(board))
        if rebuilt:
            left = [name for name in returned if at(board, name).state is TaskState.NONE]  # a new try deletes it
            board = reread(board, [(name, values[name[0]]) for name in left])
        play(board, length, ending)
    return board


ENDED = (Outcome.SKIPPED, Outcome.FAILED)  # how a producer ends without a value


@pytest.mark.parametrize(
    "lengths", [(2, 0), (3, 1), (2, 0, 1), *((3, end) for end in ENDED), *((2, end, 1) for end in ENDED)]
)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_cleared_run_with_fewer_values_ends_as_a_new_run(
    shape: str, rule: TriggerRule, lengths: tuple[int | Outcome, ...]
) -> None:
    compiled = SHAPES[shape](rule)
    for ending in (Outcome.SUCCESS, Outcome.SKIPPED, Outcome.FAILED):
        new = ends(play(begin(compiled), lengths[-1], ending))
        for rebuilt in (False, True):
            assert ends(cleared(compiled, lengths, ending, rebuilt=rebuilt)) == new, (ending, rebuilt)


CHAIN = graph(task("p"), M, mapped("n", "m", inputs=over("m")), mapped("o", "n", inputs=over("n")), task("c", "o"))


@pytest.mark.parametrize(
    "lengths",
    [(3, 0), (3, Outcome.SKIPPED), (3, Outcome.FAILED), (3, 1, 0), (3, Outcome.FAILED, 2), (3, 0, Outcome.SKIPPED, 3)],
)
@pytest.mark.parametrize("rebuilt", [False, True])
def test_chains_of_mappings_keep_no_instances_that_a_new_run_would_not_have(
    lengths: tuple[int | Outcome, ...], rebuilt: bool
) -> None:
    new = ends(play(begin(CHAIN), lengths[-1], Outcome.SUCCESS))

    assert ends(cleared(CHAIN, lengths, Outcome.SUCCESS, rebuilt=rebuilt)) == new


def test_instances_that_have_run_stay_although_another_one_of_their_task_is_skipped_now() -> None:
    board = play(begin(CHAIN), 2, Outcome.SUCCESS)
    clear(board, "p", "m[0]", "m[1]", "n[1]")

    play(board, Outcome.SKIPPED, Outcome.SUCCESS)

    assert (seen(board)["n[0]"], seen(board)["n[1]"]) == ("success", "skipped")


def test_a_mapping_that_has_become_empty_is_one_instance_that_is_skipped() -> None:
    board = cleared(graph(task("p"), M), (2, 0), Outcome.SUCCESS)

    assert seen(board) == {"p": "success", "m[0]": "skipped", "m[1]": "removed"}
    assert at(board, "m[0]").reason == "there is nothing to map over"
    assert cleared(graph(task("p"), M), (2, 0, 3), Outcome.SUCCESS).total == 1 + 3


def test_the_only_instance_that_is_left_of_an_empty_mapping_is_stopped() -> None:
    board = begin(graph(task("p"), mapped("m", "p", inputs=over("p"), trigger_rule="all_done")))
    finish(board, "p", value=2)
    finish(board, "m[1]")
    running = at(board, "m[0]")
    board.effects.slots.ready.remove(running)
    board.grant(running, board.run.run_after, 1)
    clear(board, "p", "m[1]")

    finish(board, "p", value=0)

    assert seen(board) == {"p": "success", "m[0]": "skipped", "m[1]": "removed"}
    assert board.key(running) in board.effects.cancelled


def test_setups_that_were_removed_are_not_waited_for() -> None:
    inside = (mapped("m", "p", inputs=over("p"), is_setup=True), task("n", "m"), mapped("c", "n", inputs=over(3)))

    board = cleared(graph(task("p"), setup("s"), *inside), (2, 1), Outcome.SUCCESS)

    assert [state for name, state in seen(board).items() if name[0] == "c"] == ["success"] * 3
