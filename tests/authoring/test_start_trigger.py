"""Declaring that a task begins in its trigger: the semantics reference, section 25.6."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aiosched import DAG, BaseOperator, DateTimeSensor, FileSensor, StartTriggerArgs, TaskGroup, task
from aiosched.authoring.triggers.encoding import load
from aiosched.core.values.messages import Deferral
from aiosched.errors import DagError
from aiosched.triggers import BaseTrigger, DateTimeTrigger, TriggerEvent

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


class Door(BaseTrigger):
    """Waits for a door."""

    def __init__(self, name: str = "front") -> None:
        self.name = name

    async def run(self) -> Any:
        yield TriggerEvent(self.name)


class Waits(BaseOperator):
    """Declares in its class what it begins in."""

    start_from_trigger = True
    start_trigger_args = StartTriggerArgs(trigger_cls=Door, next_method="go_on", timeout=timedelta(minutes=1))

    def go_on(self, context: Any, event: Any) -> Any:
        return event


class Chooses(Waits):
    """Declares it for each task, as Airflow's documentation shows: by changing what the class has."""

    def __init__(self, *, door: Any, start_from_trigger: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        assert self.start_trigger_args is not None
        self.start_trigger_args.trigger_kwargs = {"name": door}
        self.start_from_trigger = start_from_trigger


def begun(dag: DAG) -> dict[str, Deferral | None]:
    return {spec.task_id: spec.starts_deferred for spec in dag.to_spec().tasks}


def test_a_class_declares_it_for_all_its_tasks() -> None:
    with DAG("d", schedule=None) as dag:
        Waits(task_id="t")

    found = begun(dag)["t"]

    assert found is not None
    assert found.classpath == f"{__name__}.Door"
    assert (found.kwargs, found.next_method, found.next_kwargs, found.timeout) == ("{}", "go_on", "{}", 60.0)


def test_tasks_may_change_what_their_class_declares_without_changing_each_other() -> None:
    with DAG("d", schedule=None) as dag:
        for name in ("back", "side"):
            Chooses(task_id=name, door=name)
        Chooses(task_id="none", door="none", start_from_trigger=False)

    found = begun(dag)

    assert {name: one and load(one.kwargs) for name, one in found.items()} == {
        "back": {"name": "back"}, "side": {"name": "side"}, "none": None,
    }  # fmt: skip
    assert Waits.start_trigger_args.trigger_kwargs is None


def test_two_parses_give_equal_specs_and_the_class_may_be_named_by_its_path() -> None:
    def parsed() -> DAG:
        with DAG("d", schedule=None) as dag:
            one = Waits(task_id="t")
            one.start_trigger_args = StartTriggerArgs("my.Trigger", "go_on", {"at": NOON}, {"by": timedelta(1)}, 5)
        return dag

    assert begun(parsed()) == begun(parsed())
    found = begun(parsed())["t"]
    assert found is not None
    assert (found.classpath, load(found.kwargs), load(found.next_kwargs)) == (
        "my.Trigger",
        {"at": NOON},
        {"by": timedelta(1)},
    )


def test_a_mapped_task_begins_in_one_trigger_for_all_its_instances() -> None:
    with DAG("d", schedule=None) as dag:
        Chooses.partial(task_id="t", start_from_trigger=True).expand(door=["x", "y"])
        Chooses.partial(task_id="u", start_from_trigger=False).expand(door=["x", "y"])

    found = begun(dag)

    assert found["t"] == Deferral(classpath=f"{__name__}.Door", kwargs="{}", next_method="go_on", timeout=60.0)
    assert found["u"] is None


class Known(Waits):
    """Takes the trigger's arguments under the names that mapped tasks know."""

    def __init__(self, *, trigger_kwargs: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)


def test_the_trigger_arguments_of_a_mapped_task_cannot_be_mapped() -> None:
    with DAG("d", schedule=None) as dag:
        Known.partial(task_id="t").expand(trigger_kwargs=[{}, {}])

    with pytest.raises(DagError, match=r"'t' starts in its trigger, the same one for all its instances, so 'trigger_"):
        dag.to_spec()


@task
def what() -> str:
    return "x"


@pytest.mark.parametrize("door", ["{{ ds }}", ["a", {"b": "{% raw %}"}]], ids=["text", "nested"])
def test_templates_are_refused_with_the_remedy(door: Any) -> None:
    with DAG("d", schedule=None) as dag:
        Chooses(task_id="t", door=door)

    with pytest.raises(DagError, match=r"Task 't' starts in its trigger, where templates.*let execute\(\) defer"):
        dag.to_spec()


def test_outputs_of_other_tasks_are_refused_too() -> None:
    with DAG("d", schedule=None) as dag:
        Chooses(task_id="t", door=what())

    with pytest.raises(DagError, match="outputs of other tasks are not filled in"):
        dag.to_spec()


class Nothing(BaseOperator):
    """Says that it begins in a trigger, and not in which."""

    start_from_trigger = True


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (None, "no start_trigger_args that say which trigger"),
        (
            StartTriggerArgs(Door, "gone"),
            "is to continue with 'gone' after its trigger, but Nothing has no such",
        ),
        (StartTriggerArgs("Door", "execute"), "trigger_cls='Door' is not the path of a class"),
        (StartTriggerArgs(Door("x"), "execute"), "is neither a class at the top of a module"),  # type: ignore[arg-type]
        (
            StartTriggerArgs(Door, "execute", {"name": object()}),
            "kwargs of Door['name'] is an object, which JSON cannot",
        ),
    ],
    ids=["nothing", "method", "path", "object", "argument"],
)
def test_what_cannot_be_begun_in_is_refused_when_the_dag_is_parsed(args: Any, words: str) -> None:
    with DAG("d", schedule=None) as dag, TaskGroup("g"):
        Nothing(task_id="t").start_trigger_args = args

    with pytest.raises(DagError) as caught:
        dag.to_spec()

    assert "'g.t'" in str(caught.value)
    assert words in str(caught.value)
    assert __file__.rpartition("/")[2] in str(caught.value)


def test_standard_sensors_begin_in_their_trigger_on_demand() -> None:
    with DAG("d", schedule=None) as dag:
        DateTimeSensor(task_id="moment", target_time=NOON, start_from_trigger=True, timeout=90)
        FileSensor(task_id="file", filepath="/tmp/x", recursive=True, poke_interval=2, start_from_trigger=True)
        FileSensor(task_id="worker", filepath="/tmp/x", deferrable=True)

    found = begun(dag)

    moment, file = found["moment"], found["file"]
    assert moment is not None
    assert file is not None
    assert moment.classpath == f"{DateTimeTrigger.__module__}.DateTimeTrigger"
    assert (load(moment.kwargs), moment.next_method, moment.timeout) == ({"moment": NOON}, "execute_complete", 90.0)
    assert load(file.kwargs) == {"filepath": "/tmp/x", "recursive": True, "poke_interval": 2.0}
    assert found["worker"] is None


def test_a_file_below_a_connection_cannot_be_named_before_a_worker_runs() -> None:
    with DAG("d", schedule=None), pytest.raises(DagError, match="start_from_trigger needs filepath alone"):
        FileSensor(task_id="file", filepath="x", fs_conn_id="disk", start_from_trigger=True)
