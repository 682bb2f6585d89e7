"""Templates in arguments: what they see, what they give, and how they fail."""

from __future__ import annotations

import os
from collections import namedtuple
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2
import pytest

from aiosched import DAG, BaseOperator, BashOperator, EmptyOperator, PythonOperator, literal
from aiosched.authoring.base import file_stamps
from aiosched.authoring.runtime.context import Context
from aiosched.core.values.messages import XComRef
from aiosched.errors import TemplateError
from tests.authoring.authoring_builders import LOGICAL_DATE, FakeServices, attempt_of, context_of, run_task

Pair = namedtuple("Pair", "a b")


class Echo(BaseOperator):
    """Has one templated argument of any kind."""

    template_fields = ("value",)
    template_ext = (".sql",)

    def __init__(self, value: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.value = value


class Nested:
    """An object with a templated attribute."""

    template_fields = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def rendered(value: Any, *, conf: dict[str, Any] | None = None, logical_date: Any = LOGICAL_DATE, **dag: Any) -> Any:
    """`value` as a task of a DAG with the options `dag` gets it."""
    task = Echo(task_id="t", value=value, dag=DAG("d", **dag))
    return task.render(context_of(task, attempt_of(conf=conf, logical_date=logical_date))).value


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ ds }}", "2026-01-02"),
        ("{{ ds_nodash }}", "20260102"),
        ("{{ ts }}", "2026-01-02T03:04:05+00:00"),
        ("{{ ts_nodash }}", "20260102T030405"),
        ("{{ ts_nodash_with_tz }}", "20260102T030405+0000"),
        ("{{ logical_date.add(days=1) | ds }}", "2026-01-03"),
        ("{{ logical_date | ds_nodash }}", "20260102"),
        ("{{ logical_date | ts }}", "2026-01-02T03:04:05+00:00"),
        ("{{ logical_date | ts_nodash }}", "20260102T030405"),
        ("{{ logical_date | ts_nodash_with_tz }}", "20260102T030405+0000"),
        ("{{ data_interval_start.year }}", "2026"),
        ("{{ run_id }}", "manual__1"),
        ("{{ dag_run.run_type }}", "manual"),
        ("{{ dag_run.run_id }} {{ dag_run.logical_date.year }} {{ dag_run.conf }}", "manual__1 2026 {'n': 5}"),
        ("{{ dag.dag_id }} {{ task.task_id }} {{ ti.task_id }} {{ task_instance.try_number }}", "d t t 2"),
        ("{{ try_number }}", "2"),
        ("{{ params.n }} {{ params.m }}", "5 2"),
        ("{{ conf.n }}", "5"),
        ("{{ task_instance_key_str }}", "d__t__20260102"),
        ("{{ test_mode }}", "False"),
        ("{{ macros.ds_add(ds, 5) }}", "2026-01-07"),
        ("{{ macros.ds_add(ds, -2) }}", "2025-12-31"),
        ("{{ macros.ds_format(ds, '%Y-%m-%d', '%d/%m/%y') }}", "02/01/26"),
        ("{{ macros.datetime(2026, 1, 1) + macros.timedelta(days=1) }}", "2026-01-02 00:00:00"),
        ("{{ macros.json.dumps({'a': 1}) }}", '{"a": 1}'),
        ("{{ macros.uuid.UUID(int=1) }}", "00000000-0000-0000-0000-000000000001"),
        ("{{ macros.datetime_diff_for_humans(logical_date, logical_date.add(hours=3)) }}", "3 hours before"),
        ("{{ macros.dateutil.parser.parse('2026-01-01').year }}", "2026"),
        ("{% for x in range(3) %}{{ x }}{% endfor %}", "012"),
        ("{# nothing #}x", "x"),
        ("{% set y = 2 %}{{ y * 2 }}", "4"),
        ("keeps the last line's end {{ 1 }}\n", "keeps the last line's end 1\n"),
        ("no template", "no template"),
    ],
)
def test_what_templates_see(template: str, text: str) -> None:
    assert rendered(template, conf={"n": 5}, params={"n": 1, "m": 2}) == text


def test_templates_are_rendered_wherever_they_stand() -> None:
    value = {"a": ["{{ ds }}", 1], "b": ("{{ 1 }}",), "c": {"{{ 2 }}"}, "d": None, "{{ k }}": Pair("{{ 3 }}", 4)}

    assert rendered(value) == {"a": ["2026-01-02", 1], "b": ("1",), "c": {"2"}, "d": None, "{{ k }}": Pair("3", 4)}


def test_objects_with_template_fields_are_copied_and_rendered() -> None:
    given = Nested("{{ ds }}")

    assert rendered([given])[0].text == "2026-01-02"
    assert given.text == "{{ ds }}"


class Guarded(Echo):
    """Its templated argument is a property with a default of its own."""

    @property
    def value(self) -> Any:
        return self._value or "default"

    @value.setter
    def value(self, value: Any) -> None:
        self._value = value


@pytest.mark.parametrize(("value", "result"), [("on {{ ds }}", "on 2026-01-02"), (None, "default")])
def test_a_template_field_may_be_a_property(value: Any, result: str) -> None:
    task = Guarded(task_id="t", value=value, dag=DAG("d"))

    assert task.render(context_of(task, attempt_of())).value == result
    assert task.value == (value or "default")


def test_a_literal_stays_as_it_is() -> None:
    assert rendered(literal("{{ ds }}")) == "{{ ds }}"


def test_values_are_text_unless_the_dag_asks_for_native_objects() -> None:
    assert rendered("{{ [1, 2] }}") == "[1, 2]"
    assert rendered("{{ [1, 2] }}", render_template_as_native_obj=True) == [1, 2]
    assert rendered("{{ logical_date }}", render_template_as_native_obj=True) == LOGICAL_DATE


def test_the_dags_own_macros_and_filters() -> None:
    options = {
        "user_defined_macros": {"double": lambda x: x * 2, "company": "acme"},
        "user_defined_filters": {"shout": str.upper},
    }

    assert rendered("{{ double(2) }} {{ company | shout }}", **options) == "4 ACME"


def test_template_files_are_found_beside_the_dag_and_in_the_search_path(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "query.sql").write_text("SELECT '{{ ds }}' {% include 'deep/part.sql' %}\n")
    (tmp_path / "deep" / "part.sql").write_text("FROM {{ dag.dag_id }}")

    assert rendered("query.sql", template_searchpath=str(tmp_path)) == "SELECT '2026-01-02' FROM d\n"
    assert rendered(["deep/part.sql"], template_searchpath=[str(tmp_path)]) == ["FROM d"]
    assert rendered("query.txt") == "query.txt"


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("changed", ["query.sql", "part.sql", "base.sql", "macros.sql"])
def test_a_changed_template_file_is_read_again_whatever_its_time_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str, replaced: bool
) -> None:
    if replaced:
        monkeypatch.setattr(file_stamps, "SETTLED", -(2**62))  # every file was changed long ago
    files = {
        "base.sql": "base 1 {% block body %}{% endblock %}",
        "macros.sql": "{% macro name() %}macros 1{% endmacro %}",
        "part.sql": "part 1",
        "query.sql": "{% extends 'base.sql' %}{% import 'macros.sql' as m %}"
        "{% block body %}query 1 {% include 'part.sql' %} {{ m.name() }}{% endblock %}",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    task = Echo(task_id="t", value="query.sql", dag=DAG("d", template_searchpath=str(tmp_path)))
    context = context_of(task)
    assert task.render(context).value == "base 1 query 1 part 1 macros 1"

    before = (tmp_path / changed).stat()
    written = tmp_path / ("new" if replaced else changed)
    written.write_text(files[changed].replace("1", "2"))
    os.utime(written, ns=(before.st_atime_ns, before.st_mtime_ns))
    written.rename(tmp_path / changed)

    word = changed.removesuffix(".sql")
    assert task.render(context).value == "base 1 query 1 part 1 macros 1".replace(f"{word} 1", f"{word} 2")


def test_a_template_file_that_appears_earlier_in_the_search_path_counts(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    (second / "query.sql").write_text("second")
    task = Echo(task_id="t", value="query.sql", dag=DAG("d", template_searchpath=[str(first), str(second)]))
    assert task.render(context_of(task)).value == "second"

    (first / "query.sql").write_text("first")

    assert task.render(context_of(task)).value == "first"


def test_a_template_file_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_stamps, "SETTLED", -(2**62))  # every file was changed long ago
    (tmp_path / "query.sql").write_text("SELECT 1")
    environment = DAG("d", template_searchpath=str(tmp_path)).templates.environment

    assert environment.get_template("query.sql") is environment.get_template("query.sql")


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ nothing }}", ["'nothing' is undefined", "'{{ nothing }}'"]),
        ({"k": ["x {{ params.nothing }}"]}, ["'dict object' has no attribute 'nothing'"]),
        ("{{ ds.nothing }}", ["'nothing'"]),
        ("{% if %}", ["Expected an expression"]),
        ("{{ 1 / 0 }}", ["division by zero"]),
        ("{{ ds | nothing }}", ["No filter named 'nothing'"]),
        ("missing.sql", ["there is no template file 'missing.sql'"]),
        ("{{ ''.__class__ }}", ["unsafe"]),
        ("{{ int(5) }}", ["'int' is undefined"]),
    ],
)
def test_a_template_that_cannot_be_rendered_names_task_field_template_and_name(template: Any, words: list[str]) -> None:
    with pytest.raises(TemplateError) as caught:
        rendered(template)

    for word in ["Task 't', field 'value'", repr(template), *words]:
        assert word in str(caught.value)


@pytest.mark.parametrize("template", ["{{ 1 / 0 }}", "{% set x = 0 %}{% include 'part.sql' %}"])
def test_an_error_is_the_templates_own_whatever_the_other_names_would_raise(tmp_path: Path, template: str) -> None:
    def broken(_: Context) -> Any:
        raise TypeError("not asked for")

    (tmp_path / "part.sql").write_text("{{ 1 / x }}")
    task = Echo(task_id="t", value=template, dag=DAG("d", template_searchpath=[str(tmp_path)]))
    with pytest.raises(TemplateError, match="division by zero"):
        task.render(Context({}, lazy={"wrong": broken}))


def test_included_templates_see_what_is_only_fetched_when_it_is_used(tmp_path: Path) -> None:
    (tmp_path / "part.sql").write_text("{{ late }} {{ x }}")
    task = Echo(
        task_id="t", value="{% set x = 1 %}{% include 'part.sql' %}", dag=DAG("d", template_searchpath=[str(tmp_path)])
    )
    assert task.render(Context({}, unlisted={"late": lambda _: "fetched"})).value == "fetched 1"


def test_a_run_without_a_logical_date_says_why_a_date_is_missing() -> None:
    with pytest.raises(TemplateError, match=r"'ds' is undefined \(this run has no logical date"):
        rendered("{{ ds }}", logical_date=None)
    assert rendered("{{ dag_run.run_after.year }} {{ dag_run.logical_date }}", logical_date=None) == "2026 None"


def test_a_dag_may_allow_undefined_names() -> None:
    assert rendered("[{{ nothing }}]", template_undefined=jinja2.Undefined) == "[]"


def test_a_task_without_templates_is_not_copied_when_it_keeps_no_state() -> None:
    with DAG("d"):
        plain = PythonOperator(task_id="a", python_callable=print, op_kwargs={"x": 1})
        templated = PythonOperator(task_id="b", python_callable=print, op_kwargs={"x": "{{ ds }}"})
        bash = BashOperator(task_id="c", bash_command="true")

    assert plain.render(context_of(plain)) is plain
    assert templated.render(context_of(templated)).op_kwargs == {"x": "2026-01-02"}
    assert templated.op_kwargs == {"x": "{{ ds }}"}
    assert bash.render(context_of(bash)) is not bash


def test_a_task_without_a_dag_can_be_rendered() -> None:
    task = BashOperator(task_id="t", bash_command="{{ ds }}")

    assert task.render(context_of(task)).bash_command == "2026-01-02"


@pytest.mark.parametrize(
    ("template", "refs"),
    [
        ("{{ ti.xcom_pull('a') }}", [XComRef("a")]),
        ("{{ ti.xcom_pull(task_ids='a', key='k')['x'] | upper }}", [XComRef("a", "k")]),
        ("{{ task_instance.xcom_pull(task_ids=['a', 'b']) }}", [XComRef("a"), XComRef("b")]),
        ("{{ ti.xcom_pull('a', map_indexes=2) }}", [XComRef("a", map_index=2)]),
        ("{{ ti.xcom_pull('a', map_indexes=[0, 1]) }}", [XComRef("a", map_index=0), XComRef("a", map_index=1)]),
        ("{% if ti.xcom_pull('a') %}{{ ti.xcom_pull('b') }}{% endif %}", [XComRef("a"), XComRef("b")]),
        ("{{ ti.xcom_pull('a', include_prior_dates=True) }}", [XComRef("a")]),
        ("{{ ti.xcom_pull('a', dag_id='other') }}{{ ti.xcom_pull('a', run_id='r') }}", []),
        ("{{ ti.xcom_pull(params.which) }}", []),
        ("{{ other.xcom_pull('a') }}", []),
        ("{{ xcom_pull('a') }} {{ ti.xcom_push }}", []),
        ("{{ ti.xcom_pull( }}", []),
    ],
)
def test_what_templates_pull_is_known_before_they_are_rendered(template: str, refs: list[XComRef]) -> None:
    task = Echo(task_id="t", value=[template], dag=DAG("d"))

    assert sorted(task.xcom_references(), key=repr) == sorted(refs, key=repr)


async def test_what_templates_pull_is_fetched_in_one_call() -> None:
    with DAG("d"):
        a, b = (EmptyOperator(task_id=name) for name in "ab")
        task = Echo(task_id="t", value=["{{ ti.xcom_pull('a') }}", b.output, "{{ ti.xcom_pull(['a', 'b']) }}"])
    a >> task
    services = FakeServices({("a", "return_value"): {-1: "x"}, ("b", "return_value"): {-1: {"y": 1}}})
    context = context_of(task, services=services)
    await context["ti"].prefetch(task.xcom_references())

    assert task.render(context).value == ["x", {"y": 1}, "['x', {'y': 1}]"]
    assert len(services.calls) == 1


async def test_a_bash_command_may_be_the_output_of_a_task_with_a_template_in_it() -> None:
    """Only what the author wrote is a template: values of other tasks are not."""
    with DAG("d"):
        a = EmptyOperator(task_id="a")
        task = PythonOperator(task_id="t", python_callable=lambda x: x, op_args=[a.output])
    result, _ = await run_task(task, xcoms={("a", "return_value"): {-1: "{{ ds }}"}})

    assert result == "{{ ds }}"


def test_dates_in_the_context_are_in_utc() -> None:
    amsterdam = datetime.fromisoformat("2026-01-02T04:04:05+01:00")

    assert rendered("{{ logical_date }}", logical_date=amsterdam) == str(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
