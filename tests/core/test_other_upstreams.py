"""A cleared run whose mapping has values, but another upstream ends otherwise now, ends as a new run would.

A task in a mapped group whose upstream outside of the group fails is not expanded in a new run, whatever it is mapped
over returns. Source: the semantics reference, sections 26.4, 26.5 and 26.7.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import msgspec
import pytest

from aiosched.core.graph.graph import Graph
from aiosched.core.graph.spec import DagSpec, GroupSpec
from aiosched.core.graph.trigger_rules import TriggerRule
from aiosched.core.run.board import Board
from aiosched.core.values.messages import Outcome
from aiosched.core.values.states import TaskState
from tests.core.graph_builders import graph, in_a_mapped_group, mapped, over, setup, task
from tests.core.mapping_builders import at, begin, clear, finish, reread, seen
from tests.core.test_fewer_values import RULES, _not_always, ends

SHAPES = {
    "inside, behind it": lambda rule: in_a_mapped_group(
        over("p"),
        task("m", "p"),
        task("n", "m", "x"),
        task("k", "m", "n", trigger_rule=rule),
        outside=(task("p"), task("x"), task("c", "k", trigger_rule=rule)),
    ),
    "with its rule": lambda rule: in_a_mapped_group(
        over("p"),
        task("m", "p"),
        task("n", "m", "x", trigger_rule=rule),
        task("k", "n"),
        outside=(task("p"), task("x"), task("c", "n", "k", trigger_rule=rule)),
    ),
    "at the beginning of the group": lambda rule: in_a_mapped_group(
        over("p"),
        task("m", "x"),
        task("n", "m", trigger_rule=rule),
        outside=(task("p"), task("x"), task("c", "n", trigger_rule=rule)),
    ),
    "mapped over the group": lambda rule: in_a_mapped_group(
        over("p"),
        task("m", "p"),
        task("n", "m", "x"),
        outside=(task("p"), task("x"), mapped("c", "n", inputs=over("n"), trigger_rule=rule), task("d", "c")),
    ),
    "without a group": lambda rule: graph(
        task("p"), task("x"), mapped("m", "p", inputs=over("p")),
        mapped("n", "m", "x", inputs=over("m")), mapped("k", "n", inputs=over("n"), trigger_rule=rule),
    ),
    "a mapped upstream": lambda rule: in_a_mapped_group(
        over("p"),
        task("m", "p"),
        task("n", "m", "x"),
        task("k", "m", "n", trigger_rule=rule),
        outside=(task("p"), mapped("x", inputs=over(2)), task("c", "k", trigger_rule=rule)),
    ),
}  # fmt: skip


def _of_groups(rule: TriggerRule, inner: GroupSpec) -> Graph:
    """`m` and `n` in the group g, then `o` and `k` in g or another group."""
    of = dict(zip("mnok", ("g", "g", inner.group_id, inner.group_id), strict=True))
    tasks = (
        task("p"), task("x"), task("m", "p"), task("n", "m", "x"),
        task("o", "n", trigger_rule=rule), task("k", "o", trigger_rule=rule), task("c", "k", trigger_rule=rule),
    )  # fmt: skip
    inside = tuple(msgspec.structs.replace(each, group_id=of.get(each.task_id)) for each in tasks)
    return Graph(DagSpec(dag_id="sales", tasks=inside, groups=(GroupSpec(group_id="g", mapping=over("p")), inner)))


def _setup(rule: TriggerRule) -> Graph:
    inside = (task("m", "p"), task("n", "m", "x"), task("k", "n", trigger_rule=rule))
    return in_a_mapped_group(over("p"), *inside, outside=(task("p"), setup("x"), task("c", "k", trigger_rule=rule)))


SHAPES["a setup"] = _setup
SHAPES["a group in the group"] = lambda rule: _of_groups(rule, GroupSpec(group_id="h", parent_id="g", mapping=over(2)))
SHAPES["a group over the group"] = lambda rule: _of_groups(rule, GroupSpec(group_id="h", mapping=over("n")))
Given = Mapping[str, int | Outcome]  # what p returns, and how x ends
FINE: Given = {"p": 3, "x": Outcome.SUCCESS}
ROUNDS: dict[str, tuple[Given, ...]] = {
    f"{name}, {end.value}": (*before, {"p": length, "x": end}, *after)
    for end in (Outcome.FAILED, Outcome.SKIPPED)
    for name, before, length, after in (
        ("as many", (FINE,), 3, ()),
        ("one", (FINE,), 1, ()),
        ("from one", ({"p": 1, "x": Outcome.SUCCESS},), 3, ()),
        ("and again with fewer", (FINE,), 3, ({"p": 2, "x": Outcome.SUCCESS},)),
        ("and again with more", (FINE,), 2, ({"p": 4, "x": Outcome.SUCCESS},)),
        ("twice", (FINE,), 3, ({"p": 2, "x": end},)),
    )
}


def play(board: Board, given: Given) -> Board:
    """To the end: p and x as `given`, all others succeed."""
    while ready := [i for i in board if i.state is TaskState.SCHEDULED]:
        first = min(ready, key=lambda i: (i.task, i.map_index))
        name = board.graph.task_ids[first.task]
        wanted = given.get(name, 1)
        full = name + (f"[{first.map_index}]" if first.map_index >= 0 else "")
        if isinstance(wanted, Outcome):
            finish(board, full, ending=wanted)
        else:
            finish(board, full, value=wanted)
    return board


def cleared(compiled: Graph, rounds: tuple[Given, ...], *, rebuilt: bool = False) -> Board:
    board = play(begin(compiled), rounds[0])
    for before, given in pairwise(rounds):
        values = {"m": 1, "n": 1, "k": 1, "c": 1, "y": 1, "p": before["p"]}
        returned = [name for name, state in seen(board).items() if state == "success" and name[0] in values]
        clear(board, *seen(board))
        if rebuilt:
            left = [name for name in returned if at(board, name).state is TaskState.NONE]
            board = reread(board, [(name, values[name[0]]) for name in left])
        play(board, given)
    return board


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_cleared_run_ends_as_a_new_run(shape: str, rule: TriggerRule) -> None:
    compiled = SHAPES[shape](_not_always(rule))
    for name, rounds in ROUNDS.items():
        new = ends(play(begin(compiled), rounds[-1]))
        for rebuilt in (False, True):
            assert ends(cleared(compiled, rounds, rebuilt=rebuilt)) == new, (name, rebuilt)
