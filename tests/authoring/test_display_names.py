"""Display names of DAGs, tasks and groups: what of them is stored, and which are refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from aiosched import DAG, BashOperator, EmptyOperator, TaskGroup, task
from aiosched.core.graph.spec import DagSpec, display_names, encode_spec
from aiosched.errors import DagError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RTL = "\u0623\u0648\u0627\u0645\u0631 (\u200f2026\u200f)"


def named(dag: Any = None, task: Any = None, group: Any = None) -> DagSpec:
    with DAG("d", schedule=None, dag_display_name=dag) as built, TaskGroup("g", group_display_name=group):
        EmptyOperator(task_id="t", task_display_name=task)
    return built.to_spec(now=NOW)


def test_a_name_is_stored_beside_the_id() -> None:
    spec = named("Orders", "Load it", "First part")

    assert (spec.dag_id, spec.display_name) == ("d", "Orders")
    assert display_names(spec) == {"g.t": "Load it", "g": "First part"}


@pytest.mark.parametrize(("dag", "task", "group"), [(None, None, ""), ("", "", ""), ("d", "t", "g"), ("d", "g.t", "g")])
def test_a_name_that_says_nothing_new_is_not_stored(dag: Any, task: Any, group: Any) -> None:
    assert b"display_name" not in encode_spec(named(dag, task, group))


@pytest.mark.parametrize("name", ["a", "<b>x</b>", RTL, "\U0001f680", "x" * 250, "  padded  ", "x%y_z\\", "e\u0301"])
def test_any_text_that_can_be_seen_is_a_name(name: str) -> None:
    spec = named(name, name, name)

    assert (spec.display_name, display_names(spec)) == (name, {"g.t": name, "g": name})


@pytest.mark.parametrize("kind", ["dag", "task", "group"])
@pytest.mark.parametrize(
    ("name", "fault"),
    [
        (5, "give a text, not an int"),
        (b"x", "give a text, not a bytes"),
        (["x"], "give a text, not a list"),
        ("a\0b", r"leave out U\+0000"),
        ("a\nb", r"leave out U\+000A"),
        ("\x1b[31mred", r"leave out U\+001B"),
        ("\x85", r"leave out U\+0085"),
        ("a\u2028b", r"leave out U\+2028"),
        ("\ud800", r"leave out U\+D800"),
        ("a\u202eb", r"leave out U\+202E"),
        ("a\u2066b", r"leave out U\+2066"),
        ("x" * 251, "at most 250 characters, not 251"),
        ("x" * 100_000, "at most 250 characters, not 100,000"),
        (" ", "that can be seen"),
        ("\u200b\u200f", "that can be seen"),
        ("\u3164", "that can be seen"),
    ],
)
def test_other_names_are_refused_by_name(kind: str, name: Any, fault: str) -> None:
    with pytest.raises(DagError, match=f"{kind}_display_name=.* cannot be shown: .*{fault}") as refused:
        named(**{kind: name})

    assert len(str(refused.value)) < 400
    assert (refused.value.file, refused.value.line is not None) == (__file__, True)


@pytest.mark.parametrize(
    "make",
    [
        lambda: task(task_display_name="Each")(lambda x: x).override(task_id="t").expand(x=[1]),
        lambda: BashOperator.partial(task_id="t", task_display_name="Each").expand(bash_command=["true"]),
        lambda: task.bash(task_id="t", task_display_name="Each")(lambda: "true")(),
    ],
)
def test_mapped_tasks_and_task_functions_have_names(make: Callable[[], Any]) -> None:
    with DAG("d", schedule=None) as dag:
        make()

    assert display_names(dag.to_spec(now=NOW)) == {"t": "Each"}
