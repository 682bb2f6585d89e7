"""Mapped tasks: how many instances the scheduler is told of, and what each of them is called with.

Source: the semantics reference, sections 26.1, 26.2, 26.9, 27 and 36.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched import DAG, BaseOperator, BashOperator, EmptyOperator, Param, PythonOperator, PythonSensor, task
from aiosched.authoring.tasks.nesting import split_index
from aiosched.authoring.tasks.rendering import render_label
from aiosched.core.graph.spec import (
    Concatenated,
    LiteralLength,
    MapInput,
    MappingSpec,
    TaskOutput,
    TaskSpec,
    Zipped,
    decode_spec,
    encode_spec,
)
from aiosched.errors import AioschedError, DagError, SkipTask
from tests.authoring.authoring_builders import (
    FakeServices,
    attempt_of,
    context_of,
    edges,
    not_allowed,
    run_task,
    without_loop,
)

Stored = Mapping[tuple[str, str], Mapping[int, Any]]


@task
def make() -> list[int]:
    return [1, 2]


@task
def other() -> list[str]:
    return ["a", "b", "c"]


@task
def use(*, x: Any, y: Any = None) -> Any:
    return (x, y)


def spec_of(dag: DAG, task_id: str) -> TaskSpec:
    return next(one for one in dag.to_spec().tasks if one.task_id == task_id)


def inputs_of(dag: DAG, task_id: str = "use") -> tuple[MapInput, ...]:
    mapping = spec_of(dag, task_id).mapping
    assert mapping is not None
    return mapping.inputs


async def results(dag: DAG, count: int, stored: Stored | None = None, task_id: str = "use") -> list[Any]:
    """What the instances 0..count-1 of a task return."""
    found = []
    for index in range(count):
        attempt = attempt_of(task_id, map_index=index)
        found.append((await run_task(dag.task(task_id), attempt, xcoms=stored))[0])
    return found


def returned(**values: Any) -> Stored:
    return {(task_id, "return_value"): {-1: value} for task_id, value in values.items()}


async def test_a_list_in_the_file_gives_one_instance_for_each_item() -> None:
    with DAG("d") as dag:
        use.expand(x=[1, 2, 3])

    assert inputs_of(dag) == (LiteralLength(3),)
    assert await results(dag, 3) == [(1, None), (2, None), (3, None)]


async def test_several_arguments_are_combined_and_the_last_varies_fastest() -> None:
    with DAG("d") as dag:
        use.expand(x=[1, 2], y=["a", "b", "c"])

    assert inputs_of(dag) == (LiteralLength(2), LiteralLength(3))
    assert await results(dag, 6) == [(1, "a"), (1, "b"), (1, "c"), (2, "a"), (2, "b"), (2, "c")]


async def test_a_dict_gives_pairs() -> None:
    with DAG("d") as dag:
        use.expand(x={"k": 1, "l": 2})

    assert await results(dag, 2) == [(("k", 1), None), (("l", 2), None)]


async def test_partial_arguments_are_the_same_for_all_instances() -> None:
    with DAG("d") as dag:
        use.partial(y="all {{ ds }}").expand(x=[1, 2])

    assert await results(dag, 2) == [(1, "all 2026-01-02"), (2, "all 2026-01-02")]


async def test_the_output_of_a_task_is_mapped_over_and_waited_for() -> None:
    with DAG("d") as dag:
        use.expand(x=make())

    assert inputs_of(dag) == (TaskOutput("make"),)
    assert edges(dag) == {"make>use"}
    assert await results(dag, 2, returned(make=[5, 6])) == [(5, None), (6, None)]


async def test_a_dict_that_a_task_returned_gives_pairs() -> None:
    with DAG("d") as dag:
        use.expand(x=make())

    assert await results(dag, 2, returned(make={"k": 1, "l": 2})) == [(("k", 1), None), (("l", 2), None)]


async def test_outputs_and_literals_are_combined() -> None:
    with DAG("d") as dag:
        use.expand(x=make(), y=other())

    found = await results(dag, 6, returned(make=[1, 2], other=["a", "b", "c"]))
    assert found == [(1, "a"), (1, "b"), (1, "c"), (2, "a"), (2, "b"), (2, "c")]


async def test_a_mapped_upstream_is_gathered_in_index_order_without_what_was_not_pushed() -> None:
    with DAG("d") as dag:
        use.expand(x=make.override(task_id="mapped").expand_kwargs([{}, {}, {}]))

    assert inputs_of(dag) == (TaskOutput("mapped"),)
    assert await results(dag, 2, {("mapped", "return_value"): {2: "last", 0: "first"}}) == [
        ("first", None),
        ("last", None),
    ]


@pytest.mark.parametrize(("stored", "expected"), [({}, []), ({0: 7}, [7]), ({0: 7, 3: 8}, [7, 8])])
async def test_a_mapped_upstream_as_a_plain_argument_is_a_list_whatever_its_length(
    stored: Mapping[int, int], expected: Sequence[int]
) -> None:
    with DAG("d") as dag:
        use(x=use.override(task_id="mapped").expand(x=[1]))

    result, _ = await run_task(dag.task("use"), attempt_of("use"), xcoms={("mapped", "return_value"): stored})
    assert result == (expected, None)


async def test_map_passes_each_value_through_a_function() -> None:
    with DAG("d") as dag:
        use.expand(x=make().map(lambda value: value * 10).map(str))

    assert inputs_of(dag) == (TaskOutput("make"),)
    assert await results(dag, 2, returned(make=[1, 2])) == [("10", None), ("20", None)]


async def test_a_function_in_map_may_skip_the_one_instance_that_reads_it() -> None:
    def odd(value: int) -> int:
        if value % 2 == 0:
            raise SkipTask("even")
        return value

    with DAG("d") as dag:
        use.expand(x=make().map(odd))

    assert await results(dag, 1, returned(make=[1, 2])) == [(1, None)]
    with pytest.raises(SkipTask, match="even"):
        await run_task(dag.task("use"), attempt_of("use", map_index=1), xcoms=returned(make=[1, 2]))


async def test_a_function_in_map_is_called_for_the_values_that_are_read_only() -> None:
    seen: list[int] = []
    with DAG("d") as dag:
        use.expand(x=make().map(lambda value: seen.append(value) or value))  # type: ignore[func-returns-value]

    await run_task(dag.task("use"), attempt_of("use", map_index=1), xcoms=returned(make=[1, 2, 3]))
    assert seen == [2]


async def test_zip_ends_with_the_shortest() -> None:
    with DAG("d") as dag:
        use.expand(x=make().zip(other()))

    assert inputs_of(dag) == (Zipped((TaskOutput("make"), TaskOutput("other"))),)
    assert edges(dag) == {"make>use", "other>use"}
    assert await results(dag, 2, returned(make=[1, 2], other=["a", "b", "c"])) == [((1, "a"), None), ((2, "b"), None)]


async def test_zip_with_a_fill_value_ends_with_the_longest() -> None:
    with DAG("d") as dag:
        use.expand(x=make().zip(other(), fillvalue=None))

    assert inputs_of(dag) == (Zipped((TaskOutput("make"), TaskOutput("other")), longest=True),)
    found = await results(dag, 3, returned(make=[1], other=["a", "b", "c"]))
    assert found == [((1, "a"), None), ((None, "b"), None), ((None, "c"), None)]


async def test_concat_joins() -> None:
    with DAG("d") as dag:
        use.expand(x=make().concat(other(), make.override(task_id="third")().map(str)))

    assert inputs_of(dag) == (Concatenated((TaskOutput("make"), TaskOutput("other"), TaskOutput("third"))),)
    found = await results(dag, 4, returned(make=[1], other={"k": 2}, third=[3, 4]))
    assert [x for x, _ in found] == [1, ("k", 2), "3", "4"]


async def test_combined_outputs_are_lists_as_plain_arguments() -> None:
    with DAG("d") as dag:
        use(x=make().zip(other()), y=make.override(task_id="third")().map(str).concat(other.override(task_id="o")()))

    result, _ = await run_task(
        dag.task("use"), attempt_of("use"), xcoms=returned(make=[1, 2], other=["a", "b"], third=[3], o=[])
    )
    assert result == ([(1, "a"), (2, "b")], ["3"])


async def test_expand_kwargs_gives_one_instance_for_each_dict() -> None:
    with DAG("d") as dag:
        use.expand_kwargs([{"x": 1, "y": 2}, {"x": 3}])

    assert inputs_of(dag) == (LiteralLength(2),)
    assert await results(dag, 2) == [(1, 2), (3, None)]


async def test_expand_kwargs_takes_what_a_task_returned_and_its_map() -> None:
    with DAG("d") as dag:
        use.partial(y="y").expand_kwargs(make().map(lambda value: {"x": value}))

    assert inputs_of(dag) == (TaskOutput("make"),)
    assert await results(dag, 2, returned(make=[1, 2])) == [(1, "y"), (2, "y")]


async def test_literals_may_hold_outputs() -> None:
    with DAG("d") as dag:
        use.expand(x=[make(), 3, [other()]])
        use.override(task_id="kwargs").expand_kwargs([make.override(task_id="dict")(), {"x": 1}])

    assert edges(dag) == {"make>use", "other>use", "dict>kwargs"}
    assert inputs_of(dag) == (LiteralLength(3),)
    assert await results(dag, 3, returned(make=[1], other=["a"])) == [([1], None), (3, None), ([["a"]], None)]
    assert await results(dag, 2, returned(dict={"x": 7}), task_id="kwargs") == [(7, None), (1, None)]


async def test_templates_are_rendered_in_literals_and_not_in_what_tasks_returned() -> None:
    with DAG("d") as dag:
        use.expand(x=["on {{ ds }}"], y=make())

    assert await results(dag, 1, returned(make=["{{ ds }}"])) == [("on 2026-01-02", "{{ ds }}")]


async def test_an_operator_is_made_anew_for_each_index() -> None:
    with DAG("d", default_args={"append_env": True, "retries": 4}) as dag:
        BashOperator.partial(task_id="bash", env={"A": "{{ ds }}"}, pool="p", pool_slots=2).expand(
            bash_command=["echo $A 1", "echo $A {{ ti.map_index }}"]
        )

    spec = spec_of(dag, "bash")
    assert (spec.operator, spec.pool, spec.pool_slots, spec.retries, spec.is_async) == ("BashOperator", "p", 2, 4, True)
    assert spec.template_fields["bash_command"] == ["echo $A 1", "echo $A {{ ti.map_index }}"]
    assert await results(dag, 2, task_id="bash") == ["2026-01-02 1", "2026-01-02 1"]


async def test_without_strict_the_dicts_go_before_what_all_instances_share() -> None:
    with DAG("d") as dag:
        use.partial(y="shared").expand_kwargs([{"x": 1, "y": "own"}, {"x": 2}], strict=False)
        BashOperator.partial(task_id="bash", bash_command="echo shared").expand_kwargs(
            [{"bash_command": "echo own"}, {}], strict=False
        )

    assert await results(dag, 2, task_id="bash") == ["own", "shared"]
    first, second = await results(dag, 2, task_id="use")
    assert ("own" in str(first), "shared" in str(second)) == (True, True)


async def test_without_strict_a_wrong_name_fails_the_instances_that_have_it() -> None:
    with DAG("d") as dag:
        BashOperator.partial(task_id="bash", bash_command="echo").expand_kwargs([{"bash_comand": "ls"}], strict=False)
        use.expand_kwargs([{"x": 1, "z": 1}], strict=False)

    assert dag.to_spec().dag_id == "d"
    with pytest.raises(DagError, match="no parameter 'bash_comand'"):
        await results(dag, 1, task_id="bash")
    with pytest.raises(TypeError, match="'z'"):
        await results(dag, 1, task_id="use")


class Checked(BaseOperator):
    """Looks at its arguments when it is made, and names its attributes as it likes."""

    template_fields = ("text",)

    def __init__(self, *, words: Sequence[str], limit: int = 5, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.text = " ".join(words)[:limit]

    def execute(self, context: Any) -> Any:
        return self.text, context["task"] is self, context["ti"].task is self, self.task_id, dict(self.params)


async def test_an_operator_sees_real_values_when_it_is_made_and_is_the_task_of_its_context() -> None:
    with DAG("d", default_args={"limit": 3}, params={"p": 0}) as dag:
        Checked.partial(task_id="t", params={"q": 1, "r": 1}).expand_kwargs(
            [{"words": ["a", "b", "c"], "params": {"q": 2}}, {"words": ["{{ds}}"], "limit": 99}]
        )

    first, second = await results(dag, 2, task_id="t")
    assert first == ("a b", True, True, "t", {"p": 0, "q": 2, "r": 1})
    assert second == ("2026-01-02", True, True, "t", {"p": 0, "q": 1, "r": 1})


def test_whether_a_mapped_task_is_async_is_known_beforehand_where_it_can_be() -> None:
    async def slow(x: Any) -> None: ...

    with DAG("d") as dag:
        task(slow).expand(x=[1])
        task.sensor(poke_interval=5)(slow).override(task_id="sensor").expand(x=[1])
        PythonOperator.partial(task_id="python", python_callable=slow).expand(op_args=[[1]])
        PythonOperator.partial(task_id="unknown").expand(python_callable=[slow])
        PythonSensor.partial(task_id="plain", python_callable=print).expand(op_args=[[1]])
        EmptyOperator.partial(task_id="empty").expand_kwargs([{}])

    assert {one.task_id: one.is_async for one in dag.to_spec().tasks} == {
        "slow": True, "sensor": True, "python": True, "unknown": False, "plain": False, "empty": False,
    }  # fmt: skip
    assert not spec_of(dag, "empty").is_empty


def test_a_mapped_task_has_a_place_in_the_dag_as_any_other() -> None:
    with DAG("d") as dag:
        before = EmptyOperator(task_id="before")
        mapped = BashOperator.partial(task_id="mapped", trigger_rule="none_failed").expand(bash_command=["true"])
        before >> mapped >> EmptyOperator(task_id="after")
        use(x=mapped.output)

    assert edges(dag) == {"before>mapped", "mapped>after", "mapped>use"}
    assert spec_of(dag, "mapped").trigger_rule == "none_failed"


def test_a_mapped_dag_survives_the_database() -> None:
    with DAG("d") as dag:
        use.partial(y=1).expand(x=make().zip(other(), fillvalue=0))
        use.override(task_id="long").expand(x=list(range(10_000)))
    document = encode_spec(dag.to_spec())

    assert encode_spec(decode_spec(document)) == document
    assert decode_spec(document).tasks[-1].mapping == MappingSpec(inputs=(LiteralLength(10_000),))
    assert len(document) < 4000


def test_two_long_lists_that_differ_are_two_versions() -> None:
    def document(last: int) -> bytes:
        with DAG("d") as dag:
            use.expand(x=[*range(100), last])
        return encode_spec(dag.to_spec())

    assert document(1) == document(1) != document(2)


def test_a_mapped_task_pulls_its_own_value_without_naming_itself() -> None:
    stored = {("t", "key"): {0: "zero", 1: "one"}}
    attempt = attempt_of("t", map_index=1)
    ti = context_of(EmptyOperator(task_id="t"), attempt, services=FakeServices(stored), blocking=without_loop)["ti"]

    assert ti.xcom_pull(key="key") == "one"


async def test_an_index_beyond_what_is_returned_now_fails_and_says_why() -> None:
    with DAG("d") as dag:
        use.expand(x=make())

    with pytest.raises(AioschedError, match=r"Map index 2 is out of range: .* 2 values.*clear the task"):
        await run_task(dag.task("use"), attempt_of("use", map_index=2), xcoms=returned(make=[1, 2]))


async def test_a_value_that_cannot_be_mapped_over_fails_the_reader_naming_its_source() -> None:
    with DAG("d") as dag:
        use.expand(x=make())

    with pytest.raises(AioschedError, match=r"XComArg\('make', 'return_value'\) is mapped over, but it is 7"):
        await run_task(dag.task("use"), attempt_of("use", map_index=0), xcoms=returned(make=7))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("text", "not a dict of arguments"),
        ({"y": 1, "x": 2}, "'y' is given in partial"),
    ],
)
async def test_wrong_kwargs_of_a_task_fail_their_instance_only(value: Any, message: str) -> None:
    with DAG("d") as dag:
        use.partial(y=0).expand_kwargs(make())
    stored = returned(make=[value, {"x": 1}])

    with pytest.raises(AioschedError, match=message):
        await run_task(dag.task("use"), attempt_of("use", map_index=0), xcoms=stored)
    assert (await run_task(dag.task("use"), attempt_of("use", map_index=1), xcoms=stored))[0] == (1, 0)


def test_the_label_of_an_index_is_rendered_and_at_most_250_characters() -> None:
    with DAG("d"):
        mapped = BashOperator.partial(task_id="t", map_index_template="{{ task.bash_command }}").expand(
            bash_command=["echo", "x" * 300]
        )
    labels = []
    for index in (0, 1):
        context = context_of(mapped, attempt_of("t", map_index=index), blocking=not_allowed)
        labels.append(render_label(mapped.render(context), context))

    assert labels == ["echo", "x" * 250]


def test_params_of_a_mapped_task_reach_its_templates() -> None:
    with DAG("d", params={"a": Param(1)}):
        mapped = BashOperator.partial(task_id="t", bash_command="{{ params.a }} {{ params.b }}").expand(
            params=[{"b": 2}, {"a": 3, "b": 4}]
        )

    found = [mapped.render(context_of(mapped, attempt_of("t", map_index=index))).bash_command for index in range(2)]
    assert found == ["1 2", "3 4"]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_every_index_is_one_combination_and_they_count_up_from_the_last(lengths: list[int]) -> None:
    total = 1
    for length in lengths:
        total *= length

    positions = [split_index(index, lengths) for index in range(total)]

    assert positions == sorted(positions)
    assert len(set(map(tuple, positions))) == total
    assert all(0 <= p < n for found in positions for p, n in zip(found, lengths, strict=True))
