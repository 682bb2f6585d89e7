"""A DAG compiled: indexes, order, leaves, setups, groups, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given

from aiosched.core.graph.graph import Graph
from aiosched.core.graph.spec import DagSpec, GroupSpec, TaskSpec
from aiosched.core.graph.trigger_rules import TriggerRule
from aiosched.errors import DagCycleError, DagError, DuplicateTaskError
from tests.core.graph_builders import dags, graph, names, setup, task, teardown
from tests.line_counts import lines_of


def test_dependencies_become_indexes_in_both_directions() -> None:
    compiled = graph(task("load", "extract", "clean"), task("extract"), task("clean", "extract"))

    assert compiled.task_ids == ("load", "extract", "clean")
    assert compiled.index == {"load": 0, "extract": 1, "clean": 2}
    assert compiled.upstream == ((1, 2), (), (1,))
    assert compiled.downstream == ((), (0, 2), (0,))
    assert compiled.order == (1, 2, 0)
    assert compiled.roots == (1,)
    assert compiled.leaves == (0,)
    assert compiled.rules == (TriggerRule.ALL_SUCCESS,) * 3
    assert len(compiled) == 3
    assert repr(compiled) == "<Graph of sales: 3 tasks>"


def test_a_dag_without_tasks_compiles() -> None:
    empty = graph()

    assert (empty.order, empty.roots, empty.leaves, empty.weights) == ((), (), (), ())


def test_an_upstream_named_twice_counts_once() -> None:
    assert graph(task("a"), task("b", "a", "a")).upstream[1] == (0,)


def test_a_cycle_is_refused_and_named() -> None:
    with pytest.raises(DagCycleError, match=r"DAG 'sales' has a cycle: a → b → c → a\. Remove one"):
        graph(task("start"), task("a", "c", "start"), task("b", "a"), task("c", "b"), task("end", "c"))


def test_a_task_that_depends_on_itself_is_a_cycle() -> None:
    with pytest.raises(DagCycleError, match="a cycle: a → a"):
        graph(task("a", "a"))


def test_a_task_behind_a_cycle_is_not_named_as_part_of_it() -> None:
    with pytest.raises(DagCycleError, match="a cycle: x → y → x") as refused:
        graph(task("behind", "y"), task("x", "y"), task("y", "x"))

    assert "behind" not in str(refused.value)


@pytest.mark.parametrize(
    ("tasks", "error", "message"),
    [
        ([task("load", "extrat"), task("extract")], DagError, "depends on 'extrat'.*did you mean 'extract'"),
        ([task("load", "zzz")], DagError, "Task 'load' of DAG 'sales' depends on 'zzz', which the DAG does not have"),
        ([task("load"), task("load")], DuplicateTaskError, "Two tasks are called 'load'"),
        ([task("load", trigger_rule="all_succes")], DagError, "did you mean all_success"),
        ([task("load", weight_rule="downstrem")], DagError, "did you mean downstream"),
        ([task("load", weight_rule="?")], DagError, "choose one of downstream, upstream, absolute"),
        ([task("load", group_id="ghost")], DagError, "task group 'ghost'"),
    ],
)
def test_what_cannot_be_compiled_is_named(tasks: list[TaskSpec], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        graph(*tasks)


@given(dags())
def test_the_order_has_upstreams_first_and_every_task_once(tasks: list[TaskSpec]) -> None:
    compiled = graph(*tasks)
    position = {index: place for place, index in enumerate(compiled.order)}

    assert sorted(compiled.order) == list(range(len(tasks)))
    assert all(position[up] < position[index] for index in compiled.order for up in compiled.upstream[index])


@given(dags())
def test_descendants_and_ancestors_mirror_each_other(tasks: list[TaskSpec]) -> None:
    compiled = graph(*tasks)
    everything = range(len(compiled))

    for index in everything:
        below = compiled.descendants(index)
        assert below == {other for other in everything if index in compiled.ancestors(other)}
        assert below == set(compiled.downstream[index]).union(*map(compiled.descendants, compiled.downstream[index]))


class TestLeaves:
    """The tasks that decide the run's result: section 8.5."""

    def test_a_teardown_does_not_count_and_the_task_before_it_decides(self) -> None:
        compiled = graph(setup("s"), task("work", "s"), teardown("t", "s", "work"))

        assert names(compiled, compiled.leaves) == ["work"]

    def test_a_teardown_counts_where_its_failure_shall_fail_the_run(self) -> None:
        compiled = graph(setup("s"), task("work", "s"), teardown("t", "s", "work", on_failure_fail_dagrun=True))

        assert names(compiled, compiled.leaves) == ["t"]

    def test_a_dag_of_teardowns_alone_is_decided_by_its_last_ones(self) -> None:
        compiled = graph(teardown("first"), teardown("last", "first"))

        assert names(compiled, compiled.leaves) == ["last"]


class TestSetups:
    """Sections 8.2 and 8.4."""

    def test_a_setup_further_up_is_relevant_until_its_teardown(self) -> None:
        compiled = graph(
            setup("s"), task("near", "s"), task("far", "near"), teardown("t", "s", "far"), task("after", "t")
        )

        assert [names(compiled, found) for found in compiled.indirect_setups] == [[], [], ["s"], [], []]

    def test_a_setup_without_a_teardown_is_relevant_for_all_that_follows(self) -> None:
        compiled = graph(setup("s"), task("near", "s"), task("far", "near"), task("end", "far"))

        assert [names(compiled, found) for found in compiled.indirect_setups] == [[], [], ["s"], ["s"]]

    def test_a_teardown_knows_the_tasks_of_its_scope(self) -> None:
        compiled = graph(
            setup("s"), task("a", "s"), task("b", "a"), task("aside", "a"), teardown("t", "s", "b"), task("free")
        )

        assert names(compiled, compiled.teardown_scopes[compiled.index["t"]]) == ["a", "b"]

    def test_a_dag_without_setups_has_none_anywhere(self) -> None:
        compiled = graph(task("a"), task("b", "a"))

        assert compiled.indirect_setups == compiled.teardown_scopes == ((), ())


class TestGroups:
    def test_a_group_stands_for_its_tasks_without_an_upstream_inside_it(self) -> None:
        compiled = graph(
            task("start"),
            task("g.a", "start", group_id="g"),
            task("g.inner.b", "start", group_id="g.inner"),
            task("g.inner.c", "g.a", group_id="g.inner"),
            task("g.d", "g.inner.b", group_id="g"),
            groups=("g", "g.inner", "empty"),
        )

        assert names(compiled, compiled.resolve("g")) == ["g.a", "g.inner.b"]
        assert names(compiled, compiled.resolve("g.inner")) == ["g.inner.b", "g.inner.c"]
        assert compiled.resolve("empty") == ()
        assert names(compiled, compiled.resolve("start")) == ["start"]

    def test_an_unknown_name_is_refused_with_the_nearest_one(self) -> None:
        compiled = graph(task("g.a", group_id="group_one"), groups=("group_one",))

        with pytest.raises(DagError, match=r"no task or task group 'group_on'; did you mean 'group_one'\?$"):
            compiled.resolve("group_on")

    def test_groups_that_contain_each_other_are_refused(self) -> None:
        groups = (GroupSpec(group_id="a", parent_id="b"), GroupSpec(group_id="b", parent_id="a"))

        with pytest.raises(DagError, match="contains itself"):
            Graph(DagSpec(dag_id="sales", groups=groups))


def test_ten_thousand_tasks_in_a_chain_compile() -> None:
    tasks = [task("t0"), *(task(f"t{n}", f"t{n - 1}", priority_weight=n % 7) for n in range(1, 10_000))]

    compiled = graph(*tasks)

    assert lines_of(lambda: graph(*tasks[:2000])) < 11 * lines_of(lambda: graph(*tasks[:200]))
    assert compiled.weights[0] == 1 + sum(n % 7 for n in range(1, 10_000))
    assert len(compiled.descendants(0)) == 9_999
