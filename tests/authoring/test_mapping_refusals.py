"""What cannot be mapped is refused when the DAG is built, with the line and the remedy.

Source: the semantics reference, sections 5.2, 26.1, 26.8 and 36.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from aiosched import DAG, BashOperator, EmptyOperator, TaskGroup, task, task_group
from aiosched.authoring.base.checks import AuthoringWarning
from aiosched.authoring.dag.serialize import advise
from aiosched.authoring.tasks.nesting import is_mapped_over, map_length
from aiosched.errors import AioschedError, DagError


@task
def make() -> list[int]:
    return [1]


@task
def use(x: Any, y: Any = None) -> Any:
    return x


@task_group
def group(x: Any) -> None:
    use.override(task_id="inner")(x)


def bash() -> Any:
    return BashOperator.partial(task_id="b")


def nested_task() -> None:
    @task_group
    def outer(x: Any) -> None:
        use.partial(x=x).expand(y=[1])

    outer.expand(x=[1])


def nested_argument() -> None:
    @task_group
    def outer(x: Any) -> None:
        group.expand(x=x)

    outer.expand(x=[[1]])


def nested_zipped_argument() -> None:
    @task_group
    def outer(x: Any) -> None:
        group.expand(x=make().zip(x))

    outer.expand(x=[[1]])


def nested_output() -> None:
    @task_group
    def outer(x: Any) -> None:
        group.expand(x=use(x))

    outer.expand(x=[[1]])


def always_in_group() -> None:
    @task_group
    def outer(x: Any) -> None:
        EmptyOperator(task_id="e", trigger_rule="always")

    outer.expand(x=[1])


def argument_outside() -> None:
    @task_group
    def outer(x: Any) -> Any:
        use(x)
        return [x]

    use(outer.expand(x=[1]))


def argument_returned() -> None:
    @task_group
    def outer(x: Any) -> Any:
        use(x)
        return x

    outer.expand(x=[1])


def empty_group() -> None:
    @task_group
    def outer(x: Any) -> None: ...

    outer.expand(x=[1])


REFUSED: list[tuple[str, Callable[[], Any], str]] = [
    ("nothing", lambda: use.expand(), r"use\.expand\(\) needs at least one argument"),
    ("nothing, operator", lambda: bash().expand(), r"expand\(\) needs at least one argument"),
    ("nothing, group", lambda: group.expand(), r"group\.expand\(\) needs at least one"),
    ("text", lambda: use.expand(x="abc"), r"use\.expand\(x=…\) got the text 'abc'.*Give a list: \['abc'\]"),
    ("bytes", lambda: use.expand(x=b"abc"), r"got the text b'abc'"),
    ("number", lambda: use.expand(x=3), r"got 3, which cannot be mapped over\. Give a list"),
    ("None", lambda: use.expand(x=None), r"got None"),
    ("set", lambda: use.expand(x={1, 2}), r"got \{1, 2\}"),
    ("text, group", lambda: group.expand(x="abc"), r"got the text 'abc'"),
    ("text, operator", lambda: bash().expand(bash_command="ls"), r"got the text 'ls'"),
    ("twice", lambda: use.partial(x=1).expand(x=[1]), r"'x' is given in partial\(\) too\. Give it in one"),
    (
        "twice, operator",
        lambda: BashOperator.partial(task_id="b", bash_command="ls").expand(bash_command=["ls"]),
        r"'bash_command' is given in partial\(\) too",
    ),
    ("twice, kwargs", lambda: use.partial(x=1).expand_kwargs([{"x": 1}]), r"element 0: 'x' is given in partial"),
    ("twice, partial", lambda: use.partial(x=1).partial(x=2), r"'x' is given in partial"),
    ("option", lambda: bash().expand(bash_command=["ls"], retries=[1]), r"'retries' is an option of the task.*partial"),
    ("option, kwargs", lambda: bash().expand_kwargs([{"pool": "p"}]), r"element 0: 'pool' is an option of the task"),
    ("option, task", lambda: use.expand(x=[1], retries=[1]), r"use\.expand\(\): 'retries' is an.*use\.override\(retr"),
    (
        "option, task partial",
        lambda: use.partial(pool="p"),
        r"use\.partial\(\): 'pool' is an opt.*use\.override\(pool=…",
    ),
    ("option, task kwargs", lambda: use.expand_kwargs([{"x": 1, "pool": "p"}]), r"element 0: 'pool' .*use\.override"),
    ("unknown", lambda: use.expand(x=[1], z=[1]), r"does not fit the function use: .*'z'"),
    ("unknown, partial", lambda: use.partial(z=1), r"use has no parameter 'z'"),
    ("unknown, kwargs", lambda: use.expand_kwargs([{"x": 1}, {"z": 1}]), r"element 1, does not fit the function use"),
    ("unknown, operator", lambda: bash().expand(bash_comand=["ls"]), r"no parameter 'bash_comand'.*'bash_command'"),
    ("unknown, operator kwargs", lambda: bash().expand_kwargs([{"bash_comand": "l"}]), r"no parameter 'bash_comand'"),
    ("unknown, operator partial", lambda: BashOperator.partial(task_id="b", x=1), r"has no parameter 'x'"),
    ("missing", lambda: use.expand(y=[1]), r"missing a required argument: 'x'"),
    ("missing, operator", lambda: bash().expand(env=[{}]), r"needs 'bash_command'"),
    ("no task_id", lambda: BashOperator.partial(bash_command="l"), r"BashOperator\.partial\(\) needs 'task_id'"),
    ("dict as kwargs", lambda: use.expand_kwargs({"x": [1]}), r"needs a list of dicts.*use expand\(\)"),
    ("no dicts", lambda: use.expand_kwargs([1]), r"element 0: 1 is not a dict"),
    ("no text keys", lambda: use.expand_kwargs([{1: 1}]), r"the key 1 is not a string"),
    ("key", lambda: use.expand(x=make()["rows"]), r"the key 'rows' of task 'make'"),
    ("key in map", lambda: use.expand(x=make()["rows"].map(str)), r"the key 'rows' of task 'make'"),
    ("key, kwargs", lambda: use.expand_kwargs(make()["rows"]), r"the key 'rows' of task 'make'"),
    ("key in kwargs", lambda: use.expand_kwargs([make()["rows"]]), r"the key 'rows' of task 'make'"),
    (
        "always",
        lambda: use.override(trigger_rule="always").expand(x=make()),
        r"mapped over what tasks return.*'always'.*'all_done'",
    ),
    ("always in a group", always_in_group, r"'outer\.e' is in the mapped group 'outer'.*'always'"),
    ("task in a group", nested_task, r"'outer\.use' cannot be mapped inside the mapped group 'outer'"),
    ("group over an argument", nested_argument, r"argument of a mapped group cannot be mapped over"),
    ("group over a zipped argument", nested_zipped_argument, r"argument of a mapped group cannot be mapped over"),
    ("group over a task of the group", nested_output, r"'outer\.use' of the same mapped group cannot be mapped over"),
    ("argument outside", argument_outside, r"'use' has the argument 'x' of the mapped group 'outer'"),
    ("argument returned", argument_returned, r"outer returns its argument 'x'"),
    ("empty group", empty_group, r"'outer' has no tasks"),
    ("map without function", lambda: make().map(3), r"\.map\(3\) needs a plain function"),  # type: ignore[arg-type]
    ("map with a task", lambda: make().map(use), r"needs a plain function: use \.expand\(\)"),
    ("zip with a list", lambda: make().zip([1]), r"\.zip\(\[1\]\) needs the output of a task"),  # type: ignore[arg-type]
    ("loop", lambda: list(make().map(str)), r"cannot be iterated"),
]


@pytest.mark.parametrize(("wrong", "message"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_a_wrong_mapping_is_refused_at_its_line(wrong: Callable[[], Any], message: str) -> None:
    with DAG("d", params={"p": 1}), pytest.raises(DagError) as caught:
        wrong()

    assert re.search(message, str(caught.value)), str(caught.value)
    assert (caught.value.file or "").endswith("test_mapping_refusals.py")


def test_a_param_cannot_be_mapped_over() -> None:
    with DAG("d", params={"p": 1}) as dag, pytest.raises(DagError, match=r"param 'p'.*Return its value from a task"):
        use.expand(x=dag.param("p"))


def test_the_rule_always_may_be_mapped_over_literals() -> None:
    with DAG("d") as dag:
        use.override(trigger_rule="always").expand(x=[1])

    assert dag.to_spec().tasks[0].trigger_rule == "always"


def test_the_rule_always_is_refused_when_it_was_set_later_too() -> None:
    with DAG("d") as dag:
        use.expand(x=make())
        dag.task("use").trigger_rule = "always"

    with pytest.raises(DagError, match="'always'"):
        dag.to_spec()


def test_a_partial_that_is_never_expanded_is_warned_of() -> None:
    with DAG("d") as dag:
        BashOperator.partial(task_id="lost", bash_command="ls")

    with pytest.warns(AuthoringWarning, match=r"BashOperator\(task_id='lost'\)\.partial\(\) makes no task"):
        advise(dag)


def test_who_is_mapped_over_is_known() -> None:
    with DAG("d") as dag:
        use.expand(x=make().map(str))
        with TaskGroup("g"):
            use.expand_kwargs(make())
        group.expand(x=make.override(task_id="for_group")())
        use.override(task_id="plain")(make.override(task_id="unmapped")())

    assert {one.task_id for one in dag.tasks if is_mapped_over(one)} == {"make", "g.make", "for_group"}


@pytest.mark.parametrize(("value", "length"), [([], 0), ([1, 2], 2), ({"a": 1}, 1), ((1, 2, 3), 3), ([0] * 4, 4)])
def test_the_length_of_what_others_are_mapped_over(value: Any, length: int) -> None:
    assert map_length(value, EmptyOperator(task_id="t"), -1, 4) == length


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "it returned None. Return a list or a dict"),
        ("text", "it returned 'text'"),
        (7, "it returned 7"),
        ([0] * 5, "it returned 5 values; allowed are 4.*core.max_map_length"),
    ],
)
def test_a_task_that_returns_nothing_to_map_over_fails(value: Any, message: str) -> None:
    with pytest.raises(AioschedError, match=message):
        map_length(value, EmptyOperator(task_id="t"), -1, 4)


def test_a_task_that_stores_nothing_cannot_be_mapped_over() -> None:
    with pytest.raises(AioschedError, match="do_xcom_push=False"):
        map_length([1], EmptyOperator(task_id="t", do_xcom_push=False), -1, 4)


@pytest.mark.parametrize(("value", "length"), [("anything", 1), ([1, 2], 1), (None, None)])
def test_what_an_instance_of_a_mapped_task_returns_is_one_value_of_the_gathered_list(value: Any, length: Any) -> None:
    assert map_length(value, EmptyOperator(task_id="t"), 3, 4) == length
