"""Task groups: ids, nesting, ends, and setups and teardowns."""

from __future__ import annotations

from typing import Any

import pytest

from aiosched import DAG, EmptyOperator, TaskGroup, task, task_group
from aiosched.errors import DagCycleError, DagError, DuplicateTaskError
from tests.authoring.authoring_builders import edges


def test_groups_prefix_the_ids_of_what_is_inside() -> None:
    with DAG("d") as dag, TaskGroup("outer", tooltip="all of it"):
        EmptyOperator(task_id="a")
        with TaskGroup("inner"):
            EmptyOperator(task_id="b")
        with TaskGroup("bare", prefix_group_id=False):
            EmptyOperator(task_id="c")
    spec = dag.to_spec()

    assert [(one.task_id, one.group_id) for one in spec.tasks] == [
        ("outer.a", "outer"),
        ("outer.inner.b", "outer.inner"),
        ("outer.c", "outer.bare"),
    ]
    assert [(group.group_id, group.parent_id) for group in spec.groups] == [
        ("outer", None),
        ("outer.inner", "outer"),
        ("outer.bare", "outer"),
    ]
    assert spec.groups[0].tooltip == "all of it"


def test_a_group_gives_its_children_by_label() -> None:
    with DAG("d"), TaskGroup("g") as group:
        inside = EmptyOperator(task_id="a")
        with TaskGroup("h") as nested:
            deep = EmptyOperator(task_id="b")

    assert group["a"] is inside
    assert group["h"] is nested
    assert list(group) == [inside, deep]
    assert set(group.children) == {"g.a", "g.h"}


def test_the_ends_of_a_group_are_its_tasks_without_neighbours_inside() -> None:
    with DAG("d") as dag:
        before, after = EmptyOperator(task_id="before"), EmptyOperator(task_id="after")
        with TaskGroup("g") as group:
            EmptyOperator(task_id="a") >> EmptyOperator(task_id="b")
            EmptyOperator(task_id="c")
        before >> group >> after

    assert [one.label for one in group.roots] == ["a", "c"]
    assert [one.label for one in group.leaves] == ["b", "c"]
    assert edges(dag) == {"g.a>g.b", "before>g.a", "before>g.c", "g.b>after", "g.c>after"}


def test_teardowns_are_no_ends_of_a_group() -> None:
    """Section 8.6 of the semantics reference."""
    with DAG("d") as dag:
        with TaskGroup("g") as group:
            setup, work, teardown = (EmptyOperator(task_id=name) for name in ("setup", "work", "teardown"))
            setup >> work >> teardown.as_teardown(setups=setup)
        group >> EmptyOperator(task_id="after")
    spec = {one.task_id: one for one in dag.to_spec().tasks}

    assert spec["after"].upstream == ("g.work",)
    assert spec["g.setup"].is_setup
    assert (spec["g.teardown"].is_teardown, spec["g.teardown"].trigger_rule) == (True, "all_done_setup_success")
    assert spec["g.teardown"].upstream == ("g.setup", "g.work")


def test_outputs_can_be_setups_and_teardowns() -> None:
    @task
    def make() -> int:
        return 1

    @task
    def drop(what: int) -> None: ...

    with DAG("d") as dag:
        made = make().as_setup()
        drop(made).as_teardown(setups=[made], on_failure_fail_dagrun=True)
    spec = dag.to_spec().tasks

    assert spec[0].is_setup
    assert (spec[1].is_teardown, spec[1].on_failure_fail_dagrun, spec[1].upstream) == (True, True, ("make",))


def test_a_decorated_function_makes_a_group_at_each_call() -> None:
    @task
    def load(x: Any) -> int:
        return 1

    @task_group
    def both(x: Any) -> Any:
        """Load it twice.

        More words.
        """
        return load(load(x))

    with DAG("d") as dag:
        both(both(1))
        both.override(group_id="third")(2)
    spec = dag.to_spec()

    assert [one.task_id for one in spec.tasks] == [
        "both.load", "both.load__1", "both__1.load", "both__1.load__1", "third.load", "third.load__1",
    ]  # fmt: skip
    assert edges(dag) == {
        "both.load>both.load__1", "both.load__1>both__1.load", "both__1.load>both__1.load__1",
        "third.load>third.load__1",
    }  # fmt: skip
    assert spec.groups[0].tooltip == "Load it twice."


def test_a_decorated_function_that_returns_nothing_gives_the_group() -> None:
    @task_group(group_id="named", default_args={"retries": 2})
    def body() -> None:
        EmptyOperator(task_id="a")

    with DAG("d") as dag:
        body() >> EmptyOperator(task_id="after")

    assert edges(dag) == {"named.a>after"}
    assert dag.task("named.a").retries == 2


@pytest.mark.parametrize(
    "clash",
    [
        lambda: (TaskGroup("g"), TaskGroup("g")),
        lambda: (TaskGroup("g"), EmptyOperator(task_id="g")),
        lambda: (EmptyOperator(task_id="g"), TaskGroup("g")),
    ],
)
def test_groups_and_tasks_share_their_ids(clash: Any) -> None:
    with DAG("d"), pytest.raises(DuplicateTaskError, match="'g' already") as caught:
        clash()

    assert caught.value.file == __file__


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: TaskGroup("a.b", dag=DAG("d")), "must not contain a dot"),
        (lambda: TaskGroup("a b", dag=DAG("d")), "cannot be a group_id"),
        (lambda: TaskGroup("g"), "is in no DAG"),
        (lambda: TaskGroup("g", prefix=False, dag=DAG("d")), "Did you mean 'prefix_group_id'?"),  # type: ignore[call-arg]
    ],
)
def test_a_wrong_group_is_an_error_at_the_authors_line(make: Any, words: str) -> None:
    with pytest.raises(DagError) as caught:
        make()

    assert words in str(caught.value)
    assert caught.value.file == __file__


def test_a_group_of_another_dag_is_refused() -> None:
    group = TaskGroup("g", dag=DAG("one"))

    with pytest.raises(DagError, match="belongs to another DAG"):
        EmptyOperator(task_id="t", task_group=group, dag=DAG("other"))


def test_a_dag_inside_a_group_of_another_dag_is_not_in_that_group() -> None:
    with DAG("outer"), TaskGroup("g"), DAG("inner") as inner:
        EmptyOperator(task_id="t")

    assert inner.task_ids == ["t"]


def test_a_group_answers_what_airflow_asks_of_a_node() -> None:
    with DAG("d") as dag:
        first = EmptyOperator(task_id="first")
        with TaskGroup("g") as group:
            last = EmptyOperator(task_id="last")
            with TaskGroup("in") as inner:
                middle = EmptyOperator(task_id="middle")
            middle >> last
        first >> group >> EmptyOperator(task_id="end")

    assert (group.dag_id, group.node_id, inner.task_group, group.task_group) == ("d", "g", group, None)
    assert (group.upstream_list, group.downstream_list) == ([first], [dag.get_task("end")])
    assert group.topological_sort() == [inner, last]
    assert list(group.get_task_group_dict()) == ["g", "g.in"]
    assert (group.has_task(middle), group.has_task(first)) == (True, False)
    assert (middle.node_id, middle.roots, middle.leaves) == ("g.in.middle", [middle], [middle])
    assert (middle.operator_name, middle.operator_class) == ("EmptyOperator", EmptyOperator)


def test_members_that_wait_for_each_other_have_no_order() -> None:
    with DAG("d"), TaskGroup("g") as group:
        with TaskGroup("in"):
            one, two = EmptyOperator(task_id="one"), EmptyOperator(task_id="two")
        one >> EmptyOperator(task_id="between") >> two

    with pytest.raises(DagCycleError, match="'g'"):
        group.topological_sort()
