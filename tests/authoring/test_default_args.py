"""What parameters a task gets: its own, defaults of groups and DAG, and what is refused."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aiosched import DAG, BaseOperator, BashOperator, Context, EmptyOperator, PythonOperator, TaskGroup
from aiosched.authoring.base.checks import AuthoringWarning
from aiosched.errors import DagError

HERE = __file__


class Plain(BaseOperator):
    """An operator that passes everything on."""

    def __init__(self, path: str, retries: int = 7, **kwargs: Any) -> None:
        super().__init__(retries=retries, **kwargs)
        self.path = path


class Closed(BaseOperator):
    """An operator that passes nothing on."""

    def __init__(self, name: str) -> None:
        super().__init__(task_id=name)


class Popping(BaseOperator):
    """An operator that takes a name of its own out of the rest."""

    def __init__(self, **kwargs: Any) -> None:
        self.colour = kwargs.pop("colour", "red")
        super().__init__(**kwargs)


class Abstract(BaseOperator, ABC):
    """Operators may be abstract classes."""

    @abstractmethod
    def execute(self, context: Context) -> None: ...


def test_default_arguments_reach_parameters_that_were_left_out() -> None:
    with DAG("d", default_args={"retries": 2, "owner": "ann", "bash_command": "x", "unknown": 1}):
        given = EmptyOperator(task_id="given", retries=1)
        left_out = BashOperator(task_id="left_out")  # type: ignore[call-arg]

    assert (given.retries, given.owner) == (1, "ann")
    assert (left_out.retries, left_out.owner, left_out.bash_command) == (2, "ann", "x")


def test_every_class_along_the_inheritance_chain_gets_the_defaults_for_its_own_parameters() -> None:
    with DAG("d", default_args={"retries": 2, "path": "/x", "owner": "ann"}):
        plain = Plain(task_id="plain")  # type: ignore[call-arg]
        closed = Closed(name="closed")

    assert (plain.path, plain.retries, plain.owner) == ("/x", 2, "ann")
    assert (closed.retries, closed.owner) == (2, "ann")


def test_a_default_in_the_signature_holds_without_default_arguments() -> None:
    assert Plain(task_id="t", path="/x").retries == 7


def test_inner_default_arguments_win() -> None:
    with DAG("d", default_args={"retries": 1, "owner": "dag", "queue": "dag", "pool": "dag"}):
        outer = TaskGroup("outer", default_args={"retries": 2, "owner": "outer", "queue": "outer"})
        with outer, TaskGroup("inner", default_args={"retries": 3, "owner": "inner"}):
            task = EmptyOperator(task_id="t", default_args={"retries": 4})
        after = EmptyOperator(task_id="after")

    assert (task.retries, task.owner, task.queue, task.pool) == (4, "inner", "outer", "dag")
    assert (after.retries, after.owner) == (1, "dag")


def test_default_arguments_come_with_an_explicit_dag_or_group() -> None:
    built = DAG("d", default_args={"retries": 2})
    group = TaskGroup("g", dag=built, default_args={"owner": "ann"})

    assert EmptyOperator(task_id="a", dag=built).retries == 2
    inside = EmptyOperator(task_id="b", task_group=group)
    assert (inside.task_id, inside.retries, inside.owner) == ("g.b", 2, "ann")


def test_params_of_dag_default_arguments_and_task_are_merged() -> None:
    with DAG("d", default_args={"params": {"a": 1, "b": 1}}, params={"b": 2, "c": 2}) as built:
        task = EmptyOperator(task_id="t", params={"c": 3})

    assert dict(built.params) == {"a": 1, "b": 2, "c": 2}
    assert dict(task.params) == {"a": 1, "b": 2, "c": 3}
    assert built.to_spec().tasks[0].params == {"c": 3}


@pytest.mark.parametrize(
    ("kind", "given", "words"),
    [
        (
            BashOperator,
            {"task_id": "t", "bash_comand": "x"},
            ["BashOperator(task_id='t')", "bash_command=… instead of bash_comand="],
        ),
        (EmptyOperator, {"task_id": "t", "retry": 1}, ["'retry'", "Did you mean 'retries'?"]),
        (EmptyOperator, {"task_id": "t", "task_concurrency": 1}, ["Use 'max_active_tis_per_dag' instead"]),
        (Closed, {"name": "t", "retries": 1}, ["Closed", "'retries'"]),
        (BashOperator, {"task_id": "t"}, ["needs 'bash_command'"]),
        (EmptyOperator, {}, ["EmptyOperator needs 'task_id'"]),
        (EmptyOperator, {"task_id": "a b"}, ["'a b' cannot be a task_id"]),
        (EmptyOperator, {"task_id": "t", "retries": -1}, ["retries=-1", "at least 0"]),
        (EmptyOperator, {"task_id": "t", "pool_slots": 0}, ["pool_slots=0", "at least 1"]),
        (EmptyOperator, {"task_id": "t", "priority_weight": 1.5}, ["priority_weight=1.5"]),
        (EmptyOperator, {"task_id": "t", "priority_weight": -(2**31)}, ["whole number of at least -2147483647."]),
        (EmptyOperator, {"task_id": "t", "priority_weight": 2**31}, ["whole number of at most 2147483647."]),
        (EmptyOperator, {"task_id": "t", "pool_slots": 0}, ["whole number of at least 1."]),
        (EmptyOperator, {"task_id": "t", "retry_delay": -1}, ["retry_delay=-1"]),
        (EmptyOperator, {"task_id": "t", "execution_timeout": "5m"}, ["execution_timeout='5m'"]),
        (EmptyOperator, {"task_id": "t", "trigger_rule": "all_sucess"}, ["all_sucess", "all_success"]),
        (EmptyOperator, {"task_id": "t", "weight_rule": "down"}, ["weight rule", "down"]),
        (EmptyOperator, {"task_id": "t", "retry_exponential_backoff": "yes"}, ["retry_exponential_backoff='yes'"]),
        (EmptyOperator, {"task_id": "t", "on_retry_callback": [1]}, ["on_retry_callback=[1]"]),
        (PythonOperator, {"task_id": "t", "python_callable": "f"}, ["python_callable='f'", "function"]),
    ],
)
def test_what_is_wrong_is_an_error_at_the_authors_line(kind: Any, given: dict[str, Any], words: list[str]) -> None:
    with DAG("d"), pytest.raises(DagError) as caught:
        kind(**given)

    assert (caught.value.file, bool(caught.value.line)) == (HERE, True)
    for word in words:
        assert word in str(caught.value)


def test_parameters_are_given_by_name() -> None:
    operator: Any = EmptyOperator

    with pytest.raises(DagError, match="takes its parameters by name"):
        operator("t")


def test_an_operator_may_take_names_of_its_own_out_of_the_rest() -> None:
    assert Popping(task_id="t", colour="blue").colour == "blue"


def test_operators_may_be_abstract() -> None:
    abstract: Any = Abstract

    with pytest.raises(TypeError, match="abstract"):
        abstract(task_id="t")


def test_airflow_parameters_without_effect_are_warnings_when_they_are_set() -> None:
    with pytest.warns(AuthoringWarning, match="'email_on_failure' has no effect"):
        EmptyOperator(task_id="t", email_on_failure=True, email_on_retry=False)  # type: ignore[call-arg]


@pytest.mark.parametrize(("given", "multiplier"), [(True, 2.0), (False, 0.0), (3, 3.0), (1.5, 1.5)])
def test_backoff_is_a_multiplier(given: Any, multiplier: float) -> None:
    assert EmptyOperator(task_id="t", retry_exponential_backoff=given).retry_exponential_backoff == multiplier


def test_a_task_says_what_the_scheduler_needs() -> None:
    with DAG("d") as built:
        EmptyOperator(
            task_id="t",
            retries=3,
            retry_delay=timedelta(minutes=1),
            max_retry_delay=600,
            execution_timeout=1.5,
            pool="etl",
            pool_slots=2,
            priority_weight=-5,
            weight_rule="absolute",
            queue="q",
            executor="local",
            max_active_tis_per_dag=1,
            max_active_tis_per_dagrun=2,
            wait_for_downstream=True,
            start_date="2026-01-01",
            end_date=datetime(2026, 2, 1, tzinfo=UTC),
            trigger_rule="none_failed_or_skipped",
            owner="ann",
            doc_md="about",
            on_retry_callback=print,
            on_failure_callback=[print, repr],
            on_success_callback=print,
        )
    spec = built.to_spec().tasks[0]

    assert (spec.retries, spec.retry_delay, spec.max_retry_delay, spec.execution_timeout) == (3, 60.0, 600.0, 1.5)
    assert (spec.pool, spec.pool_slots, spec.priority_weight, spec.weight_rule) == ("etl", 2, -5, "absolute")
    assert (spec.queue, spec.executor) == ("q", "local")
    assert (spec.max_active_tis_per_dag, spec.max_active_tis_per_dagrun) == (1, 2)
    assert (spec.depends_on_past, spec.wait_for_downstream) == (True, True)  # the second includes the first
    assert (spec.start_date, spec.end_date) == (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC))
    assert spec.trigger_rule == "none_failed_min_one_success"
    assert (spec.owner, spec.doc) == ("ann", "about")
    assert (spec.has_retry_callback, spec.has_failure_callback, spec.is_empty) == (True, True, False)


@pytest.mark.parametrize(
    ("given", "trivial"),
    [
        ({}, True),
        ({"on_failure_callback": print}, True),
        ({"on_success_callback": print}, False),
        ({"on_execute_callback": print}, False),
        ({"outlets": ["x"]}, False),
        ({"inlets": ["x"]}, False),
        ({"pre_execute": print}, False),
    ],
)
def test_which_empty_tasks_need_no_worker(given: dict[str, Any], trivial: bool) -> None:
    with DAG("d") as built:
        EmptyOperator(task_id="t", **given)

    assert built.to_spec().tasks[0].is_empty is trivial


def test_an_empty_operator_that_does_something_is_not_trivial() -> None:
    class Busy(EmptyOperator):
        def execute(self, context: Context) -> None:
            print("busy")

    with DAG("d") as built:
        Busy(task_id="t")

    assert not built.to_spec().tasks[0].is_empty


def test_the_owners_of_a_dag_are_those_of_its_tasks() -> None:
    with DAG("d") as built:
        for number, owner in enumerate(["zoe", "ann", "zoe", ""]):
            EmptyOperator(task_id=f"t{number}", owner=owner)

    assert built.to_spec().owner == "ann, zoe"
