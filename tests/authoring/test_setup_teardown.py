"""Setups and teardowns: how they are marked, what a scope connects, what is refused.

Source: the semantics reference, sections 5.2 (restrictions), 8.1 and 8.6.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from aiosched import DAG, BaseOperator, EmptyOperator, TaskGroup, setup, task, task_group, teardown
from aiosched.authoring.base.checks import AuthoringWarning
from aiosched.authoring.dag.serialize import advise
from aiosched.core.graph.spec import TaskSpec
from aiosched.errors import DagError
from tests.authoring.authoring_builders import edges


def empty(task_id: str, **options: Any) -> EmptyOperator:
    operator: EmptyOperator = EmptyOperator(task_id=task_id, **options)
    return operator


@setup
def create() -> str:
    return "cluster"


@teardown
def delete(cluster: Any = None) -> None: ...


@task
def work(value: Any = None) -> Any:
    return value


def spec_of(dag: DAG, task_id: str) -> TaskSpec:
    return next(one for one in dag.to_spec().tasks if one.task_id == task_id)


def test_functions_are_marked_by_decorators() -> None:
    @setup
    @task(retries=2)
    def over_a_task() -> None: ...

    @teardown(on_failure_fail_dagrun=True)
    @task.short_circuit
    def over_check() -> bool:
        return True

    with DAG("d") as dag:
        delete(create())
        over_check() << over_a_task()

    found = {one.task_id: (one.is_setup, one.is_teardown, one.on_failure_fail_dagrun) for one in dag.to_spec().tasks}
    assert found == {
        "create": (True, False, False),
        "delete": (False, True, False),
        "over_a_task": (True, False, False),
        "over_check": (False, True, True),
    }
    assert spec_of(dag, "over_a_task").retries == 2
    assert spec_of(dag, "delete").trigger_rule == "all_done_setup_success"


def test_a_marked_function_stays_so_with_other_options() -> None:
    with DAG("d") as dag:
        create.override(task_id="other", retries=1)()

    assert (spec_of(dag, "other").is_setup, spec_of(dag, "other").retries) == (True, 1)


def test_a_teardown_names_its_setups() -> None:
    with DAG("d") as dag:
        first, second = empty("first"), work()
        empty("down").as_teardown(setups=[first, second], on_failure_fail_dagrun=True)

    assert edges(dag) == {"first>down", "work>down"}
    assert [one.is_setup for one in dag.to_spec().tasks] == [True, True, False]
    assert spec_of(dag, "down").on_failure_fail_dagrun


def test_mapped_tasks_may_be_setups_and_teardowns() -> None:
    with DAG("d") as dag:
        up = create.override(task_id="up").expand_kwargs([{}, {}])
        down = delete.expand(cluster=up)
        with down:
            work()

    assert (spec_of(dag, "up").is_setup, spec_of(dag, "delete").is_teardown) == (True, True)
    assert edges(dag) == {"up>delete", "up>work", "work>delete"}


def scoped(build: Callable[[], Any]) -> set[str]:
    with DAG("d") as dag:
        build()
    return edges(dag)


def test_a_scope_is_connected_to_its_setup_and_teardown() -> None:
    def build() -> None:
        with empty("t").as_teardown(setups=empty("s")):
            empty("a") >> empty("b")
            empty("c")

    assert scoped(build) == {"s>t", "s>a", "a>b", "b>t", "s>c", "c>t"}


@pytest.mark.parametrize("end", ["setup", "teardown", "arrow"])
def test_a_scope_may_be_named_by_either_end(end: str) -> None:
    def build() -> None:
        up, down = create(), delete()
        arrow = up >> down
        with {"setup": up, "teardown": down, "arrow": arrow}[end]:
            work()

    assert scoped(build) == {"create>delete", "create>work", "work>delete"}


def test_a_setup_alone_is_a_scope_without_end() -> None:
    def build() -> None:
        with empty("s").as_setup():
            empty("a") >> empty("b")

    assert scoped(build) == {"s>a", "a>b"}


def test_a_teardown_that_is_made_inside_the_scope_ends_it() -> None:
    def build() -> None:
        with empty("s").as_setup() as scope:
            empty("a")
            empty("t").as_teardown(setups=scope.setups["s"].as_setup())

    assert scoped(build) == {"s>a", "s>t", "a>t"}


def test_several_setups_of_one_teardown_all_go_before_the_scope() -> None:
    def build() -> None:
        with empty("t").as_teardown(setups=[empty("s1"), empty("s2")]):
            empty("a")

    assert scoped(build) == {"s1>t", "s2>t", "s1>a", "s2>a", "a>t"}


def test_nested_scopes_connect_their_ends() -> None:
    def build() -> None:
        with empty("t1").as_teardown(setups=empty("s1")):
            empty("a")
            with empty("t2").as_teardown(setups=empty("s2")):
                empty("b")

    assert scoped(build) == {"s1>t1", "s1>a", "a>t1", "s2>t2", "s2>b", "b>t2", "s1>s2", "t2>t1"}


def test_ends_of_an_inner_scope_belong_to_the_outer_one_wherever_they_were_made() -> None:
    def build() -> None:
        inner = empty("t2").as_teardown(setups=empty("s2"))
        with empty("t1").as_teardown(setups=empty("s1")), inner:
            empty("b")

    assert scoped(build) == {"s1>t1", "s2>t2", "s2>b", "b>t2", "s1>s2", "t2>t1"}


def test_tasks_made_before_are_taken_in_by_name() -> None:
    def build() -> None:
        early = empty("early")
        with TaskGroup("g") as group:
            empty("x")
        with empty("t").as_teardown(setups=empty("s")) as scope:
            scope.add_task(early, group)

    assert scoped(build) == {"s>t", "s>early", "early>t", "s>g.x", "g.x>t"}


def test_groups_inside_a_scope_are_connected_by_their_ends() -> None:
    def build() -> None:
        with empty("t").as_teardown(setups=empty("s")), TaskGroup("g"):
            empty("a") >> empty("b")

    assert scoped(build) == {"s>t", "s>g.a", "g.a>g.b", "g.b>t"}


def test_what_stands_after_a_group_does_not_wait_for_its_teardowns() -> None:
    def build() -> None:
        with TaskGroup("g") as group, empty("t").as_teardown(setups=empty("s")):
            empty("a")
        empty("before") >> group >> empty("after")

    assert scoped(build) == {"g.s>g.t", "g.s>g.a", "g.a>g.t", "g.a>after", "before>g.s"}


def test_a_block_that_fails_connects_nothing_and_ends_its_scope() -> None:
    def build() -> None:
        with contextlib.suppress(ZeroDivisionError), empty("s").as_setup():
            empty("a")
            raise ZeroDivisionError
        empty("b")

    assert scoped(build) == set()


@task_group
def group_of_tasks() -> None:
    empty("x")


REFUSED: list[tuple[str, Callable[[], Any], str]] = [
    ("plain task as scope", lambda: empty("a").__enter__(), "'a' is neither a setup nor a teardown"),
    ("setup made teardown", lambda: empty("a").as_setup().as_teardown(), "'a' is a setup, so it cannot be a teardown"),
    ("teardown made setup", lambda: empty("a").as_teardown().as_setup(), "'a' is a teardown, so it cannot be a setup"),
    (
        "teardown with a rule",
        lambda: empty("a", trigger_rule="all_done").as_teardown(),
        "their own trigger rule.*'all_done'",
    ),
    ("over a group", lambda: setup(group_of_tasks), "@setup cannot decorate a task group"),
    ("no task", lambda: empty("s").as_setup().__enter__().add_task(3), r"add_task\(3\) needs an existing task"),
]


@pytest.mark.parametrize(("wrong", "message"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_makes_no_sense_is_refused(wrong: Callable[[], Any], message: str) -> None:
    try:
        with DAG("d"), pytest.raises(DagError, match=message):
            wrong()
    finally:
        from aiosched.authoring.tasks import setup_scopes

        setup_scopes._scopes.set(())


def test_a_task_after_a_setup_must_wait_for_its_success() -> None:
    with DAG("d") as dag:
        empty("s").as_setup() >> empty("a", trigger_rule="all_done")

    with pytest.raises(DagError, match=r"'a' is directly downstream of the setup 's'.*all_success"):
        dag.to_spec()


def test_only_teardowns_may_fail_the_run_by_themselves() -> None:
    with DAG("d") as dag:
        empty("a").on_failure_fail_dagrun = True

    with pytest.raises(DagError, match="'a' has on_failure_fail_dagrun, which is for teardowns only"):
        dag.to_spec()


@pytest.mark.parametrize(("before", "when"), [(True, "once all its upstream tasks are done"), (False, "at once")])
def test_a_teardown_without_a_setup_is_warned_of_and_it_says_when_it_runs(before: bool, when: str) -> None:
    with DAG("d") as dag:
        down: BaseOperator = empty("t").as_teardown()
        if before:
            empty("a") >> down

    with pytest.warns(AuthoringWarning, match=f"The teardown 't' has no setup, so it runs {when}.*as_teardown"):
        advise(dag)
