"""DAGs become specs: equal DAGs are equal bytes, whatever their shape and whenever they are built.

Source: the semantics reference, sections 31.1 and 31.2.
"""

from __future__ import annotations

import functools
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched import DAG, EmptyOperator, PythonOperator, TaskGroup
from aiosched.authoring.tasks.shown_values import as_json
from aiosched.core.graph.spec import content_hash, decode_spec, encode_spec
from aiosched.core.graph.trigger_rules import TriggerRule
from tests.authoring.authoring_builders import edges


class Colour(Enum):
    """A plain enumeration."""

    RED = "red"


def function() -> None: ...


texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
rules = st.sampled_from([rule.value for rule in TriggerRule if rule is not TriggerRule.ALL_DONE_SETUP_SUCCESS])
task_options = st.fixed_dictionaries(
    {},
    optional={
        "retries": st.integers(0, 5),
        "retry_delay": st.floats(0, 1000),
        "retry_exponential_backoff": st.booleans() | st.floats(0, 4),
        "trigger_rule": rules,
        "pool": st.sampled_from(["default_pool", "etl"]),
        "pool_slots": st.integers(1, 5),
        "priority_weight": st.integers(-10, 10),
        "weight_rule": st.sampled_from(["downstream", "upstream", "absolute"]),
        "owner": st.text("abc", max_size=3),
        "task_display_name": st.none() | st.text("abc", max_size=3),
        "depends_on_past": st.booleans(),
        "params": st.dictionaries(st.text("ab", min_size=1), json_values, max_size=2),
        "templates_dict": json_values.map(lambda value: {"value": value}),
        "op_kwargs": st.dictionaries(st.text("ab", min_size=1), json_values, max_size=2),
        "start_date": st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    },
)
dag_options = st.fixed_dictionaries(
    {},
    optional={
        "schedule": st.sampled_from([None, "@daily", "5 4 * * *", timedelta(hours=3)]),
        "tags": st.sets(st.text("abc", min_size=1)),
        "catchup": st.booleans(),
        "max_active_runs": st.integers(0, 20),
        "dagrun_timeout": st.timedeltas(timedelta(0), timedelta(days=30)),
        "params": st.dictionaries(st.text("ab", min_size=1), json_values, max_size=2),
        "description": st.text(),
        "access_control": st.dictionaries(
            st.text("ab", min_size=1), st.sets(st.sampled_from(["can_read", "can_edit"]), min_size=1), max_size=2
        ),
    },
)


@st.composite
def blueprints(draw: st.DrawFn) -> dict[str, Any]:
    """What a DAG is built from: options, tasks in groups, and arrows from earlier to later tasks."""
    size = draw(st.integers(0, 8))
    arrows = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)).filter(lambda pair: pair[0] < pair[1])
    return {
        "dag": draw(dag_options),
        "tasks": draw(st.lists(task_options, min_size=size, max_size=size)),
        "groups": draw(st.lists(st.sampled_from(["", "g", "h"]), min_size=size, max_size=size)),
        "arrows": draw(st.lists(arrows, max_size=12)) if size > 1 else [],
    }


def build(blueprint: dict[str, Any]) -> DAG:
    with DAG("d", start_date="2026-01-01", **blueprint["dag"]) as dag:
        groups: dict[str, Any] = {"g": TaskGroup("g"), "h": TaskGroup("h"), "": None}
        tasks = [
            PythonOperator(task_id=f"t{number}", python_callable=function, task_group=groups[group], **options)
            for number, (options, group) in enumerate(zip(blueprint["tasks"], blueprint["groups"], strict=True))
        ]
        for before, after in blueprint["arrows"]:
            tasks[before] >> tasks[after]
    return dag


@given(blueprints())
def test_any_dag_survives_the_way_through_json(blueprint: dict[str, Any]) -> None:
    """Source: the semantics reference, sections 31.1 and 35 (15)."""
    dag = build(blueprint)
    document = encode_spec(dag.to_spec())
    loaded = decode_spec(document)

    assert loaded == dag.to_spec()
    assert encode_spec(loaded) == document
    assert {f"{up}>{task.task_id}" for task in loaded.tasks for up in task.upstream} == edges(dag)


@given(blueprints())
def test_building_the_same_dag_twice_gives_the_same_hash(blueprint: dict[str, Any]) -> None:
    """Source: the semantics reference, sections 31.2 and 35 (15)."""
    one, other = (content_hash(encode_spec(build(blueprint).to_spec())) for _ in range(2))

    assert one == other


def test_params_keep_their_authors_order_and_another_order_is_a_change() -> None:
    one, other = (
        encode_spec(DAG("d", default_args={"params": {"unit": "m"}}, params=params).to_spec())
        for params in ({"until": 1, "days": 2}, {"days": 2, "until": 1})
    )

    assert list(decode_spec(one).params) == ["unit", "until", "days"]
    assert list(decode_spec(other).params) == ["unit", "days", "until"]
    assert content_hash(one) != content_hash(other)


def test_the_bytes_do_not_depend_on_the_process() -> None:
    program = """
from aiosched import DAG, PythonOperator
from aiosched.core.graph.spec import encode_spec
with DAG("d", tags={"x", "y", "z"}) as d:
    tasks = [PythonOperator(task_id=n, python_callable=print, op_args=[{"a", "b", "c"}, object()]) for n in "abcdef"]
    tasks[1:] >> tasks[0]
print(encode_spec(d.to_spec()).decode())
"""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2", "3")
    }

    assert len(outputs) == 1
    assert "0x" not in outputs.pop()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({3, 1, 2}, [1, 2, 3]),
        ((1, [2, {"a": None}]), [1, [2, {"a": None}]]),
        ({1: "x"}, {"1": "x"}),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00+00:00"),
        (date(2026, 1, 1), "2026-01-01"),
        (timedelta(minutes=1), 60.0),
        (Colour.RED, "red"),
        (Path("a/b"), "a/b"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (function, "<function>"),
        (functools.partial(function), "partial(<function>)"),
        (object(), "<object>"),
        (float("nan"), "nan"),
        ("half of a character: \ud800", "'half of a character: \\ud800'"),
        (2**70, 2**70),
        (True, True),
        (b"x", "<bytes>"),
        (dict, "<dict>"),
    ],
)
def test_template_fields_are_shown_as_stable_text(value: Any, shown: Any) -> None:
    assert as_json(value) == shown


def test_the_place_of_the_file_is_not_part_of_a_dag(tmp_path: Path) -> None:
    code = "from aiosched import DAG, EmptyOperator\nwith DAG('d') as d:\n    EmptyOperator(task_id='t')\n"
    documents = set()
    for name in "ab":
        scope: dict[str, Any] = {"__name__": "somewhere"}
        exec(compile(code, str(tmp_path / name), "exec"), scope)
        documents.add(encode_spec(scope["d"].to_spec()))

    assert len(documents) == 1


def test_ten_thousand_tasks_are_one_document() -> None:
    with DAG("d") as dag:
        tasks = [EmptyOperator(task_id=f"t{number}") for number in range(10_000)]
        tasks[0] >> tasks[1:]
    spec = dag.to_spec()

    assert len(spec.tasks) == 10_000
    assert spec.tasks[9_999].upstream == ("t0",)
