"""`@task`: functions as tasks, their wiring, their ids, and what they are called with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

import pytest

from aiosched import (
    DAG,
    BashOperator,
    Context,
    EmptyOperator,
    PythonOperator,
    TaskGroup,
    get_current_context,
    task,
    task_group,
)
from aiosched.core.values.messages import XComRef
from aiosched.errors import AioschedError, DagError
from tests.authoring.authoring_builders import attempt_of, edges, run_task


@task
def one() -> int:
    return 1


@task
def use(*values: Any, **named: Any) -> Any:
    return None


def test_arguments_with_outputs_are_arrows() -> None:
    with DAG("d") as dag:
        first, second, third, fourth = one(), one(), one(), one()
        use(first, [1, {"a": (second, third)}], key={"b": {"c": fourth}})

    assert dag.task_ids == ["one", "one__1", "one__2", "one__3", "use"]
    assert edges(dag) == {"one>use", "one__1>use", "one__2>use", "one__3>use"}


def test_outputs_are_arguments_of_operators_too() -> None:
    with DAG("d") as dag:
        made = one()
        BashOperator(task_id="bash", bash_command=made, env={"X": one()["key"]})
        PythonOperator(task_id="python", python_callable=print, op_args=[dag.task("bash").output])
    spec = dag.to_spec()

    assert edges(dag) == {"one>bash", "one__1>bash", "bash>python"}
    assert spec.tasks[2].template_fields["env"] == {"X": "{{ ti.xcom_pull(task_ids='one__1', key='key') }}"}
    assert set(dag.task("bash").xcom_references()) == {XComRef("one"), XComRef("one__1", "key")}


def test_an_output_set_after_construction_is_an_arrow_too() -> None:
    with DAG("d") as dag:
        bash = BashOperator(task_id="bash", bash_command="true")
        bash.bash_command = one()

    assert dag.to_spec().tasks[0].upstream == ("one",)


def test_ids_get_a_suffix_within_their_group_only() -> None:
    with DAG("d") as dag:
        one()
        with TaskGroup("g"):
            one()
            one()
        with TaskGroup("bare", prefix_group_id=False):
            one()
        one.override(task_id="named")()
        one.override(task_id="named")()

    assert dag.task_ids == ["one", "g.one", "g.one__1", "one__1", "named", "named__1"]


def test_parameters_of_the_task_come_from_the_decorator_and_override() -> None:
    @task(retries=2, queue="q", task_id="renamed")
    def work() -> None:
        """About it."""

    with DAG("d") as dag:
        work()
        work.override(retries=5)()

    assert [(t.task_id, t.retries, t.queue) for t in dag.tasks] == [("renamed", 2, "q"), ("renamed__1", 5, "q")]
    assert dag.tasks[0].doc_md == "About it."


class Named(TypedDict):
    """A dict with known keys."""

    a: int


def test_multiple_outputs_follow_the_return_annotation() -> None:
    def plain() -> int: ...  # type: ignore[empty-body]
    def bare(): ...  # type: ignore[no-untyped-def]
    def any_dict() -> dict[str, int]: ...  # type: ignore[empty-body]
    def mapping() -> Mapping[str, int]: ...  # type: ignore[empty-body]
    def typed() -> Named: ...  # type: ignore[empty-body]
    def unknown() -> NotImported: ...  # type: ignore[name-defined] # noqa: F821

    with DAG("d"):
        found = {
            f.__name__: task(f)().operator.multiple_outputs for f in (plain, bare, any_dict, mapping, typed, unknown)
        }
        off = task(multiple_outputs=False)(any_dict)().operator.multiple_outputs

    assert found == {
        "plain": False, "bare": False, "any_dict": True, "mapping": True, "typed": True, "unknown": False,
    }  # fmt: skip
    assert off is False


def test_whether_a_task_waits_on_a_loop_follows_its_function() -> None:
    @task
    async def waits() -> None: ...

    with DAG("d") as dag:
        one()
        waits()

    assert [spec.is_async for spec in dag.to_spec().tasks] == [False, True]


async def test_a_function_gets_its_arguments_and_what_it_names_of_the_context() -> None:
    seen: dict[str, Any] = {}

    @task
    def work(x: int, ds: str, ti: Any = None, y: int = 2, *, params: Any = None) -> int:
        seen.update(x=x, ds=ds, task_id=ti.task_id, y=y, params=params)
        return 5

    with DAG("d", params={"p": 1}) as dag:
        work(1)  # type: ignore[call-arg]  # the context gives it
    result, _ = await run_task(dag.task("work"))

    assert result == 5
    assert seen == {"x": 1, "ds": "2026-01-02", "task_id": "work", "y": 2, "params": {"p": 1}}


async def test_a_coroutine_function_is_awaited() -> None:
    @task
    async def work(x: int, run_id: str | None = None) -> str:
        return f"{x} {run_id}"

    with DAG("d") as dag:
        work.override(task_id="w")(1, run_id="mine")
    result, _ = await run_task(dag.task("w"))

    assert result == "1 mine"


async def test_a_function_with_kwargs_receives_the_whole_context() -> None:
    seen: dict[str, Any] = {}

    @task
    def work(x: int, **context: Any) -> None:
        seen.update(context, x=x)

    with DAG("d") as dag:
        work(1, extra=2)
    await run_task(dag.task("work"))

    assert {"ds", "ti", "dag_run", "logical_date", "macros", "params", "data_interval_start"} <= set(seen)
    assert (seen["x"], seen["extra"], seen["ds"]) == (1, 2, "2026-01-02")


async def test_values_of_other_tasks_arrive_in_place_of_their_outputs() -> None:
    seen: list[Any] = []

    @task
    def work(a: Any, b: Any, c: Any) -> None:
        seen.extend([a, b, c])

    with DAG("d") as dag:
        work(one(), [one()["key"]], {"k": one()})
    await run_task(
        dag.task("work"),
        xcoms={("one", "return_value"): {-1: 1}, ("one__1", "key"): {-1: "v"}, ("one__2", "return_value"): {0: 5}},
    )

    assert seen == [1, ["v"], {"k": [5]}]  # the last one was mapped: a list even of one


async def test_a_task_that_returned_nothing_gives_none_but_a_missing_key_is_an_error() -> None:
    with DAG("d") as dag:
        use(one())
        use(one()["key"])
    await run_task(dag.task("use"))

    with pytest.raises(AioschedError, match=r"pushed no XCom with the key 'key'.*multiple_outputs"):
        await run_task(dag.task("use__1"))


@pytest.mark.parametrize("options", [{"multiple_outputs": True}, {"multiple_outputs": True, "do_xcom_push": False}])
async def test_a_key_of_several_outputs_is_none_when_their_task_pushed_nothing(options: dict[str, Any]) -> None:
    @task(**options)
    def several() -> dict[str, int]:
        return {"key": 1}

    with DAG("d") as dag:
        use(several()["key"])

    assert (await run_task(dag.task("use")))[0] is None


async def test_a_key_that_is_none_of_several_outputs_is_an_error() -> None:
    @task(multiple_outputs=True)
    def several() -> dict[str, int]:
        return {"other": 1}

    with DAG("d") as dag:
        use(several()["key"])

    with pytest.raises(AioschedError, match="pushed no XCom with the key 'key'"):
        await run_task(dag.task("use"), xcoms={("several", "return_value"): {-1: {"other": 1}}})


async def test_the_current_context_is_that_of_the_running_task() -> None:
    @task
    def work() -> Any:
        return get_current_context()["run_id"]

    with DAG("d") as dag:
        work()

    assert (await run_task(dag.task("work")))[0] == "manual__1"
    with pytest.raises(AioschedError, match="No task is running here"):
        get_current_context()


async def test_the_default_of_a_context_parameter_holds_when_the_run_has_no_such_value() -> None:
    @task
    def work(ds: str | None = None) -> Any:
        return ds

    with DAG("d") as dag:
        work()

    assert (await run_task(dag.task("work"), attempt_of("work", logical_date=None)))[0] is None


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda f: f(), "missing a required argument: 'x'"),
        (lambda f: f(1, 2, 3), "too many positional arguments"),
        (lambda f: f(1, z=2), "unexpected keyword argument 'z'"),
    ],
)
def test_a_call_that_does_not_fit_is_an_error_at_its_line(call: Any, words: str) -> None:
    @task
    def work(x: int, ds: Any) -> None: ...

    with DAG("d"), pytest.raises(DagError) as caught:
        call(work)

    assert words in str(caught.value)
    assert "work(…)" in str(caught.value)
    assert caught.value.file == __file__


def test_a_parameter_named_after_the_context_cannot_have_a_default_of_its_own() -> None:
    @task
    def work(ds: str = "2020-01-01") -> None: ...

    with DAG("d"), pytest.raises(DagError, match="'ds' of work is filled from the context"):
        work()


@pytest.mark.parametrize("wrong", ["name", 5, int])
def test_only_functions_can_be_decorated(wrong: Any) -> None:
    with pytest.raises(DagError, match="makes tasks of functions"):
        task(wrong)


def test_an_output_cannot_be_iterated_or_indexed_by_position() -> None:
    with DAG("d"):
        output = one()
        with pytest.raises(DagError, match="cannot be iterated"):
            list(output)
        with pytest.raises(DagError, match="indexed with 0"):
            output[0]  # type: ignore[index]


def test_an_output_inside_a_text_is_a_template_that_reads_it() -> None:
    with DAG("d"):
        assert f"echo {one()}" == "echo {{ ti.xcom_pull(task_ids='one') }}"


def test_the_function_itself_stays_available() -> None:
    assert one.function() == 1
    assert one.__name__ == "one"


async def test_an_attempt_has_an_operator_of_its_own_unless_its_class_keeps_no_state() -> None:
    class Keeps(PythonOperator):
        def execute(self, context: Context) -> Any:
            self.seen = True
            return self

    with DAG("d"):
        original = Keeps(task_id="t", python_callable=print)
    copy, _ = await run_task(original)

    assert copy is not original
    assert not hasattr(original, "seen")


def test_a_function_may_be_given_by_name_as_generators_do() -> None:
    decorators: list[Any] = [task, task.branch, task_group]
    a_task, a_branch, a_group = decorators
    with DAG("d") as dag:
        a_task(python_callable=len, task_id="n", retries=2)([1])
        a_branch(python_callable=lambda: "n", task_id="b")()
        a_group(python_callable=lambda: EmptyOperator(task_id="in"), group_id="g")()

    assert (dag.get_task("n").retries, list(dag.task_dict)) == (2, ["n", "b", "g.in"])
