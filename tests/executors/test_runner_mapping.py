"""Attempts of mapped tasks: their arguments, what they report to those that are mapped over them, their labels.

Source: the semantics reference, sections 26.2, 26.3, 26.7 and 26.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from aiosched import DAG, BaseOperator, task
from aiosched.authoring.base.settings import AuthoringDefaults, use_defaults
from aiosched.authoring.decorators.dags import task_group
from aiosched.core.values.messages import Outcome, Report, XComRef, XComValue
from aiosched.errors import SkipTask
from aiosched.executors.attempt.environment import AttemptEnvironment
from aiosched.executors.attempt.runner import Execution, drive
from aiosched.executors.inline.executor import RegisteredDags
from tests.executors.attempt_builders import FakeServices, attempt


class Stored(FakeServices):
    """Has return values by task id and map index, as JSON text."""

    def __init__(self, **values: Mapping[int, str]) -> None:
        super().__init__()
        self.values = {name.replace("__", "."): found for name, found in values.items()}
        self.asked: list[XComRef] = []

    async def get_xcoms(self, run: int, refs: Any) -> list[list[tuple[int, str]]]:
        self.asked += refs
        return [
            [(i, text) for i, text in self.values.get(ref.task_id, {}).items() if ref.map_index in (None, i)]
            for ref in refs
        ]


def run(dag: DAG, task_id: str, map_index: int = -1, services: Any = None) -> Report:
    execution = Execution(
        attempt(task_id, map_index=map_index), services or FakeServices(), AttemptEnvironment(), blocking=drive
    )
    return drive(execution.run(RegisteredDags({"d": dag})))


def returning(value: Any, **options: Any) -> DAG:
    """A task `make` that returns `value`, and one that is mapped over it."""
    with DAG("d") as dag:

        @task(**options)
        def make() -> Any:
            return value

        @task
        def use(x: Any) -> Any:
            return x

        use.expand(x=make())
    return dag


@pytest.mark.parametrize(("value", "length"), [([1, 2, 3], 3), ({"a": 1}, 1), ([], 0)])
def test_a_task_that_others_are_mapped_over_reports_how_many_values_it_returned(value: Any, length: int) -> None:
    report = run(returning(value), "make")

    assert (report.outcome, report.map_length) == (Outcome.SUCCESS, length)


def test_a_task_that_nobody_is_mapped_over_reports_no_length() -> None:
    assert run(returning([1]), "use", 0, Stored(make={-1: "[[1, 2]]"})).map_length is None


@pytest.mark.parametrize(
    ("value", "options", "reason"),
    [
        (None, {}, "returned None"),
        ("text", {}, "returned 'text'"),
        ([1, 2, 3], {}, "returned 3 values; allowed are 2"),
        ([1], {"do_xcom_push": False}, "stores nothing"),
    ],
)
def test_a_task_that_returns_nothing_to_map_over_fails_and_may_be_retried(
    value: Any, options: dict[str, Any], reason: str
) -> None:
    use_defaults(AuthoringDefaults(max_map_length=2))
    try:
        report = run(returning(value, **options), "make")
    finally:
        use_defaults(AuthoringDefaults())

    assert (report.outcome, report.fail_now) == (Outcome.FAILED, False)
    assert reason in (report.reason or "")


def test_each_instance_runs_with_its_own_value() -> None:
    reports = [run(returning([]), "use", index, Stored(make={-1: '["a", "b"]'})) for index in (0, 1)]

    assert [report.xcoms for report in reports] == [(XComValue("return_value", f'"{x}"'),) for x in "ab"]


def test_an_instance_whose_value_is_skipped_is_skipped_alone() -> None:
    def only_a(value: str) -> str:
        if value != "a":
            raise SkipTask("only a")
        return value

    with DAG("d") as dag:

        @task
        def make() -> list[str]:
            return []

        @task
        def use(x: Any) -> Any:
            return x

        use.expand(x=make().map(only_a))
    services = Stored(make={-1: '["a", "b"]'})

    assert run(dag, "use", 0, services).outcome is Outcome.SUCCESS
    assert (run(dag, "use", 1, services).outcome, run(dag, "use", 1, services).reason) == (Outcome.SKIPPED, "only a")


def test_in_a_mapped_group_only_the_own_index_is_read() -> None:
    with DAG("d") as dag:

        @task
        def first(x: Any) -> Any:
            return x

        @task
        def second(x: Any) -> Any:
            return x

        @task_group
        def each(x: Any) -> None:
            second(first(x))

        each.expand(x=["a", "b"])
    services = Stored(each__first={0: '"a"', 1: '"b"'})

    assert run(dag, "each.second", 1, services).xcoms == (XComValue("return_value", '"b"'),)
    assert services.asked == [XComRef("each.first", map_index=1)]
    assert run(dag, "each.first", 1).xcoms == (XComValue("return_value", '"b"'),)


def test_whether_a_mapped_function_is_a_coroutine_is_seen_for_each_index() -> None:
    from aiosched import PythonOperator

    async def slow() -> str:
        return "slow"

    with DAG("d") as dag:
        PythonOperator.partial(task_id="t").expand(python_callable=[slow, lambda: "quick"])

    assert [run(dag, "t", index).xcoms[0].value for index in (0, 1)] == ['"slow"', '"quick"']


class Killable(BaseOperator):
    template_fields = ("word",)
    killed: list[str] = []  # noqa: RUF012 - shared on purpose

    def __init__(self, *, word: str, fails: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.word = word
        self.fails = fails

    def execute(self, context: Any) -> None:
        context["later"] = "known"
        if self.fails:
            raise ValueError("failed")

    def on_kill(self) -> None:
        self.killed.append(self.word)


def labelled(template: str, **options: Any) -> DAG:
    with DAG("d") as dag:
        Killable.partial(task_id="t", map_index_template=template, **options).expand(word=["a{{ 1 + 1 }}", "b"])
    return dag


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize(
    ("template", "label"), [("{{ task.word }}", "a2"), ("{{ later }}", "known"), ("{{ never }}", None)]
)
def test_a_label_is_rendered_before_and_after_whether_the_task_fails_or_not(
    template: str, label: str | None, fails: bool
) -> None:
    report = run(labelled(template, fails=fails), "t", 0)

    assert report.outcome is (Outcome.FAILED if fails else Outcome.SUCCESS)
    assert report.map_label == label


def test_only_instances_with_an_index_have_labels() -> None:
    with DAG("d") as dag:
        Killable(task_id="t", word="w", map_index_template="{{ task.word }}")

    assert run(dag, "t").map_label is None


def test_a_mapped_task_without_an_index_fails_and_says_so() -> None:
    report = run(labelled("x"), "t")

    assert report.outcome is Outcome.FAILED
    assert "'t' is mapped, so it needs a map index" in (report.reason or "")


def test_on_kill_is_that_of_the_instance() -> None:
    Killable.killed.clear()
    execution = Execution(attempt("t", map_index=1), FakeServices(), AttemptEnvironment(), blocking=drive)
    drive(execution.run(RegisteredDags({"d": labelled("x")})))
    drive(execution.kill())

    assert Killable.killed == ["b"]


def test_callbacks_see_the_task_of_the_instance() -> None:
    seen: list[Any] = []
    dag = labelled("x", fails=True, on_failure_callback=lambda context: seen.append(context["task"].word))
    run(dag, "t", 1)

    assert seen == ["b"]
