"""What holds in every run, whatever its shape, its rules, and what happens in it.

Each example is watched at every step by `board_player`: only legal transitions, one try per
scheduling, no start and no settling that the oracle would not allow, nothing left undecided,
evaluating twice is evaluating once, memory equals rows, a finished run is finished, late
reports are stale. Source: the semantics reference, section 35: 7, 8, 9, 10 (also: whatever can be
settled is settled at the first look), 11 and 12 (no success is run again).

With AIOSCHED_NIGHTLY=1 each property tries 20,000 examples.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.graph.graph import Graph
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.graph.trigger_rules import TriggerRule
from aiosched.core.run.board import MAX_LOSSES
from aiosched.core.values.messages import Outcome, SkipDecision
from tests.core.board_player import FAIL_NOW, Ending, Player, Script

ANY_RULE = sorted(set(TriggerRule) - {TriggerRule.ALL_DONE_SETUP_SUCCESS})
CALM_RULES = [TriggerRule.ALL_SUCCESS, TriggerRule.ALL_DONE, TriggerRule.ALWAYS, TriggerRule.NONE_FAILED]


@dataclass(frozen=True)
class Story:
    graph: Graph
    script: Script


@st.composite
def graphs(draw: st.DrawFn, *, calm: bool = False) -> Graph:
    """Up to nine tasks. `calm`: the final states cannot depend on the order of reports (no skips)."""
    size = draw(st.integers(1, 4)) + draw(st.integers(0, 5))
    kinds = [draw(st.sampled_from(["task"] * 5 + ["empty", "setup", "teardown"])) for _ in range(size)]
    upstream = [draw(st.sets(st.integers(0, n - 1), max_size=3)) if n else set[int]() for n in range(size)]
    for n, kind in enumerate(kinds):
        if kind == "teardown" and "setup" in kinds[:n] and draw(st.booleans()):
            upstream[n].add(kinds.index("setup"))
    leaves = set(range(size)).difference(*upstream)
    tasks = []
    for n, kind in enumerate(kinds):
        kind = "task" if calm and kind in ("setup", "teardown") else kind
        rule = draw(st.sampled_from(CALM_RULES if calm else ANY_RULE))
        if calm and n in leaves and draw(st.booleans()):
            rule = TriggerRule.ALL_FAILED  # its skip meets no failure: nothing is behind it
        if any(kinds[up] == "setup" for up in upstream[n]) and not calm:
            rule = TriggerRule.ALL_SUCCESS
        if kind == "teardown":
            rule = TriggerRule.ALL_DONE_SETUP_SUCCESS
        tasks.append(
            TaskSpec(
                task_id=f"t{n}",
                operator="PythonOperator",
                upstream=tuple(f"t{up}" for up in sorted(upstream[n])),
                trigger_rule=rule,
                is_empty=kind == "empty",
                is_setup=kind == "setup",
                is_teardown=kind == "teardown",
                on_failure_fail_dagrun=kind == "teardown" and draw(st.booleans()),
                retries=draw(st.integers(0, 2)),
                retry_delay=30.0 * (n + 1),
                retry_exponential_backoff=draw(st.sampled_from([0.0, 2.0])),
            )
        )
    fail_fast = not calm and _seldom(draw)
    return Graph(DagSpec(dag_id="sales", tasks=tuple(tasks), fail_fast=fail_fast))


@st.composite
def stories(draw: st.DrawFn, *, calm: bool = False, losses: int = MAX_LOSSES) -> Story:
    graph = draw(graphs(calm=calm))
    plain: list[Ending] = [Outcome.FAILED, Outcome.SUCCESS, FAIL_NOW, Outcome.RESCHEDULED]
    endings: dict[str, list[Ending]] = {}
    lost: dict[str, list[int]] = {}
    for task, name in enumerate(graph.task_ids):
        possible = st.sampled_from(plain)
        if not calm:
            possible = st.one_of(possible, st.just(Outcome.SKIPPED), _decisions(graph, task))
        endings[name] = draw(st.lists(possible, max_size=3))
        if losses and _seldom(draw):
            lost[name] = draw(st.lists(st.integers(0, losses), max_size=2))
    interrupts = st.tuples(st.integers(0, 6), st.sampled_from(["cancel", "time_out"]))
    return Story(
        graph,
        Script(
            endings=endings,
            losses=lost,
            order=draw(st.permutations(range(len(graph)))),
            starts=draw(st.sets(st.sampled_from(graph.task_ids))),
            removed=draw(st.sets(st.sampled_from(graph.task_ids), max_size=2)) if not calm and _seldom(draw) else (),
            interrupt=draw(interrupts) if not calm and _seldom(draw) else None,
        ),
    )


def _seldom(draw: st.DrawFn) -> bool:
    return draw(st.integers(0, 5)) == 5


def _decisions(graph: Graph, task: int) -> st.SearchStrategy[Ending]:
    below = [graph.task_ids[down] for down in sorted(graph.descendants(task))]
    followed = st.lists(st.sampled_from(graph.task_ids), max_size=2).map(lambda ids: SkipDecision(followed=tuple(ids)))
    if not below:
        return followed
    skipped = st.lists(st.sampled_from(below), max_size=3).map(lambda ids: SkipDecision(skipped=tuple(ids)))
    return st.one_of(followed, skipped)


def outcome_of(player: Player) -> dict[str, Any]:
    """What must not depend on crashes: final states, the run's result, and every call of every task."""
    calls = [(r.key, r.outcome) for r in player.reports]
    return {"states": player.states, "run": player.result, "calls": set(calls), "submitted": set(player.submitted)}


@given(stories())
def test_every_run_ends_and_keeps_the_rules(story: Story) -> None:
    player = Player(story.graph, story.script).play()

    if player.board.run.reason == "all_tasks_deadlocked":
        assert story.script.removed, "only a rule that a removed upstream blocks may never hold"


@given(stories(calm=True, losses=MAX_LOSSES - 1), st.data())
def test_final_states_do_not_depend_on_the_order_of_reports(story: Story, data: st.DataObject) -> None:
    other = replace(story.script, order=data.draw(st.permutations(range(len(story.graph)))))

    one, two = Player(story.graph, story.script).play(), Player(story.graph, other).play()

    assert (one.states, one.result) == (two.states, two.result)


def test_a_task_is_decided_by_the_states_with_which_a_pass_begins() -> None:
    """`last` fails with `work`. After a crash all tasks are evaluated; `setup` does not skip it then, either."""
    tasks = [
        TaskSpec(task_id="work", operator="PythonOperator"),
        TaskSpec(task_id="all", operator="EmptyOperator", upstream=("work",), trigger_rule="all_done", is_empty=True),
        TaskSpec(
            task_id="setup", operator="PythonOperator", upstream=("all",), trigger_rule="one_failed", is_setup=True
        ),
        TaskSpec(task_id="inner", operator="PythonOperator", upstream=("setup",), is_setup=True),
        TaskSpec(task_id="last", operator="PythonOperator", upstream=("work", "inner")),
    ]
    graph = Graph(DagSpec(dag_id="sales", tasks=tuple(tasks)))
    script = Script(endings={"work": [Outcome.FAILED]}, losses={}, order=range(5), starts=set())

    for crashes in (set[int](), {0}, {1}, {2}):
        player = Player(graph, script, crashes=crashes).play()

        assert player.states["setup"] == "skipped"
        assert player.states["last"] == "upstream_failed"


@given(stories(), st.sets(st.integers(0, 40), min_size=1, max_size=6))
def test_a_board_that_is_rebuilt_from_rows_goes_on_as_if_nothing_had_happened(story: Story, crashes: set[int]) -> None:
    undisturbed = Player(story.graph, story.script).play()

    disturbed = Player(story.graph, story.script, crashes=crashes).play()

    assert outcome_of(disturbed) == outcome_of(undisturbed)


@given(stories(calm=True, losses=0), st.sets(st.integers(0, 40), min_size=1, max_size=MAX_LOSSES - 1))
def test_attempts_that_die_with_their_scheduler_change_no_result(story: Story, crashes: set[int]) -> None:
    undisturbed = Player(story.graph, story.script).play()

    disturbed = Player(story.graph, story.script, crashes=crashes, lethal=True).play()

    assert (disturbed.states, disturbed.result) == (undisturbed.states, undisturbed.result)
    stored = [disturbed.rows.endings.get(task, 0) for task in range(len(story.graph))]
    assert stored == [undisturbed.rows.endings.get(task, 0) for task in range(len(story.graph))]


@given(stories(), st.sets(st.integers(0, 60), max_size=20))
def test_every_run_ends_however_often_its_scheduler_dies(story: Story, crashes: set[int]) -> None:
    Player(story.graph, story.script, crashes=crashes, lethal=True).play()
