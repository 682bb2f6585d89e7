"""What a branch and a short circuit skip. Source: the semantics reference, sections 7.2 and 7.3."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.graph.branching import skipped_by
from aiosched.core.graph.spec import TaskSpec
from aiosched.core.values.messages import SkipDecision
from aiosched.errors import BranchError
from tests.core.graph_builders import dags, graph, names, setup, task, teardown

# branch → a, b, c, join; a → join; far hangs behind b; inside a group: c
BRANCHING = graph(
    task("branch"),
    task("a", "branch"),
    task("b", "branch"),
    task("g.c", "branch", group_id="g"),
    task("g.d", "g.c", group_id="g"),
    task("far", "b"),
    task("join", "branch", "a"),
    groups=("g", "nothing"),
)


@pytest.mark.parametrize(
    ("followed", "skipped"),
    [
        (("a",), ["b", "g.c"]),  # join is downstream of a
        (("b",), ["a", "g.c", "join"]),
        (("a", "b"), ["g.c"]),
        (("g",), ["a", "b", "join"]),
        (("far",), ["a", "b", "g.c", "join"]),  # need not be a direct downstream
        (("nothing",), ["a", "b", "g.c", "join"]),  # an empty group
        ((), ["a", "b", "g.c", "join"]),
    ],
)
def test_a_branch_skips_its_downstreams_that_are_not_followed(followed: tuple[str, ...], skipped: list[str]) -> None:
    found = skipped_by(BRANCHING, BRANCHING.index["branch"], SkipDecision(followed=followed))

    assert names(BRANCHING, found) == skipped


def test_a_branch_without_downstreams_skips_nothing() -> None:
    assert skipped_by(BRANCHING, BRANCHING.index["far"], SkipDecision(followed=())) == frozenset()


def test_a_short_circuit_skips_what_it_lists_but_no_teardown() -> None:
    compiled = graph(setup("s"), task("check", "s"), task("a", "check"), task("b", "a"), teardown("t", "s", "b"))

    found = skipped_by(compiled, compiled.index["check"], SkipDecision(skipped=("a", "b", "t")))

    assert names(compiled, found) == ["a", "b"]


def test_a_short_circuit_may_list_nothing() -> None:
    assert skipped_by(BRANCHING, 0, SkipDecision(skipped=())) == frozenset()


@pytest.mark.parametrize("decision", [SkipDecision(followed=("jion",)), SkipDecision(skipped=("jion",))])
def test_an_unknown_id_is_refused_with_the_nearest_one(decision: SkipDecision) -> None:
    with pytest.raises(BranchError, match=r"Task 'branch' chose 'jion': DAG 'sales' has no .* did you mean 'join'"):
        skipped_by(BRANCHING, 0, decision)


def test_something_that_is_no_id_is_refused() -> None:
    with pytest.raises(BranchError, match="Task 'branch' returned 7: return task ids, which are strings"):
        skipped_by(BRANCHING, 0, SkipDecision(followed=(7,)))  # type: ignore[arg-type]


@given(dags(), st.data())
def test_followed_tasks_and_what_is_behind_them_are_never_skipped(tasks: list[TaskSpec], data: st.DataObject) -> None:
    compiled = graph(*tasks)
    for branch in range(len(compiled)):
        followed = data.draw(st.sets(st.sampled_from(compiled.task_ids)))

        skipped = skipped_by(compiled, branch, SkipDecision(followed=tuple(followed)))

        chosen = {compiled.index[name] for name in followed}
        assert skipped <= set(compiled.downstream[branch])
        assert skipped.isdisjoint(chosen.union(*map(compiled.descendants, chosen)))
        assert set(compiled.downstream[branch]) - skipped <= chosen.union(*map(compiled.descendants, chosen))
