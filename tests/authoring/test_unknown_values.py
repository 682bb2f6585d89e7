"""Values that are not known when a DAG is built are not answered for."""

from __future__ import annotations

import asyncio
import json
import operator
import warnings
from collections import ChainMap, OrderedDict, UserDict, deque
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest.mock import MagicMock

import pytest

from aiosched import DAG, Asset, BaseOperator, task, task_group
from aiosched.authoring.base.building import current_dag
from aiosched.authoring.base.unknown import Unknown
from aiosched.authoring.dag.serialize import advise
from aiosched.authoring.mapping.expansion import GroupArgument
from aiosched.errors import DagError
from aiosched.testing.dag_bag import load_dag_bag


@task
def make() -> list[str]:
    return ["a"]


def test_an_argument_may_have_a_name_that_has_a_name_without_end() -> None:
    with DAG("d", schedule=None) as dag:
        BaseOperator(task_id="t", params={"queue": MagicMock()})

    dag.validate()


def group_argument() -> Any:
    kept = []

    @task_group
    def g(c: Any) -> None:
        kept.append(c)
        use(c)

    g.expand(c=["1", "2"])
    return kept[0]


@task
def use(value: Any, a: Any = None) -> None: ...


UNKNOWN: dict[str, Callable[[DAG], Any]] = {
    "argument of a group": lambda dag: group_argument(),
    "output": lambda dag: make(),
    "key of an output": lambda dag: make()["key"],
    "mapped output": lambda dag: make().map(str),
    "zipped": lambda dag: make().zip(make()),
    "concatenated": lambda dag: make().concat(make()),
    "param": lambda dag: dag.param("p"),
}
USES: dict[str, Callable[[Any], Any]] = {
    "if": lambda x: 1 if x else 2,
    "not": operator.not_,
    "==": lambda x: x == "1",
    "reflected ==": lambda x: "1" == x,  # noqa: SIM300
    "!=": lambda x: x != 1,
    "is one of": lambda x: x in ["1", "2"],
    "<": lambda x: x < 1,
    "reflected <": lambda x: 1 < x,  # noqa: SIM300
    "+": lambda x: x + "b",
    "reflected +": lambda x: 1 + x,
    "len": len,
    "int": int,
    "range": range,
    "/": lambda x: 10 / x,
    "%": lambda x: x % 2,
    "-": operator.neg,
    "round": round,
    "abs": abs,
    "float": float,
    "iteration": list,
    "in": lambda x: "a" in x,
    "index": lambda x: x[0],
    "item": lambda x: x.__setitem__("a", 1),
    "method": lambda x: x.upper(),
    "sorted": lambda x: sorted([x, "b"]),
    "max": lambda x: max(x, "b"),
    "any": lambda x: any([x]),
    "format": "{:>10}".format,
    "match": lambda x: _matched(x),
    "a place in a list": lambda x: ["a", "b"][x],
    "attribute that is set": lambda x: setattr(x, "status", "done"),
    "attribute that is deleted": lambda x: delattr(x, "status"),
    "attribute in a format": "{0.status}".format,
    "keys in keys": lambda x: x["a"]["b"],
}


def _matched(value: Any) -> bool:
    match value:
        case "1":
            return True
    return False


TEXTS: dict[str, Callable[[Any], str]] = {
    "f-string": lambda x: f"id_{x}",
    "%": lambda x: "id_%s" % x,  # noqa: UP031
    "format": "id_{}".format,
    "str": str,
    "join": lambda x: ",".join(map(str, [x])),
    "json": lambda x: json.dumps([x], default=str),
}


@pytest.mark.parametrize("use_of", USES.values(), ids=USES)
@pytest.mark.parametrize("unknown", UNKNOWN.values(), ids=UNKNOWN)
def test_a_use_is_refused_at_its_line(unknown: Callable[[DAG], Any], use_of: Callable[[Any], Any]) -> None:
    with DAG("d", params={"p": 1}) as dag:
        value = unknown(dag)
        with pytest.raises(DagError, match="not known yet") as caught:
            use_of(value)

    assert (caught.value.file or "").endswith("test_unknown_values.py")


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("kind", ["argument of a group", "mapped output", "zipped", "concatenated"])
def test_what_no_template_can_read_is_refused_in_a_text(kind: str, text: Callable[[Any], str]) -> None:
    with DAG("d") as dag:
        value = UNKNOWN[kind](dag)
        with pytest.raises(DagError, match="cannot be put into a text: it is not known yet"):
            text(value)


@pytest.mark.parametrize("kind", [kind for kind in UNKNOWN if "output" not in kind or kind == "mapped output"])
def test_a_value_is_not_looked_up(kind: str) -> None:
    with DAG("d", params={"p": 1}) as dag:
        value = UNKNOWN[kind](dag)
        with pytest.raises(DagError, match="it is not known yet"):
            {"1": "one"}.get(value, "other")
        with pytest.raises(DagError, match="it is not known yet"):
            _ = value in {"1", "2"}


@pytest.mark.parametrize("unknown", UNKNOWN.values(), ids=UNKNOWN)
def test_a_value_has_no_attributes_of_others(unknown: Callable[[DAG], Any]) -> None:
    with DAG("d", params={"p": 1}) as dag:
        value = unknown(dag)

    assert not hasattr(value, "upper")
    assert getattr(value, "isoformat", None) is None


@pytest.mark.parametrize("name", ["name", "group", "default", "inner", "function", "inputs", "fill"])
@pytest.mark.parametrize("unknown", UNKNOWN.values(), ids=UNKNOWN)
def test_the_names_of_its_own_parts_are_no_answers(unknown: Callable[[DAG], Any], name: str) -> None:
    with DAG("d", params={"p": 1}) as dag:
        value = unknown(dag)
        with pytest.raises(DagError, match=f"cannot be asked for .{name}: it is not known yet"):
            getattr(value, name)


def default_of(value: Any) -> Any:
    return value or "default"


class Custom(BaseOperator):
    template_fields = ("headers", "method")

    def __init__(self, *, headers: Any = None, method: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.headers = headers or {}
        self.method = default_of(method)
        self.is_get = headers == "GET" or method in {"get", "Get"} or headers in ["gEt"]

    def execute(self, context: Any) -> Any:
        return [self.headers, self.method]


@pytest.mark.parametrize("unknown", UNKNOWN.values(), ids=UNKNOWN)
def test_an_operator_keeps_what_it_is_given(unknown: Callable[[DAG], Any]) -> None:
    with DAG("d", params={"p": 1}) as dag:
        value = unknown(dag)
    place = value._group if isinstance(value, GroupArgument) else None

    task = Custom(task_id="t", headers=value, method=value, task_group=place)

    assert task.headers is value
    assert task.method is value
    assert task.is_get is False


def test_only_operators_fill_in_defaults() -> None:
    class Settings:
        def __init__(self, value: Any) -> None:
            self.value = value or "default"

    with DAG("d"):
        with pytest.raises(DagError, match="cannot be tested for being true"):
            Settings(make())
        with pytest.raises(DagError, match="cannot be tested for being true"):
            default_of(make())


def test_an_output_is_equal_to_itself_only() -> None:
    with DAG("d"):
        output, other = make(), make()

    assert output == output["return_value"]
    assert len({output, output["return_value"], other}) == 2
    with pytest.raises(DagError, match="cannot be compared"):
        _ = output == other


@pytest.mark.parametrize("text", [str, repr, "{!r}".format, "<{}>".format], ids=["str", "repr", "!r", "format"])
@pytest.mark.parametrize("kind", UNKNOWN)
def test_a_text_of_a_list_is_refused_where_a_task_gets_it(kind: str, text: Callable[[Any], str]) -> None:
    with DAG("d", params={"p": 1}) as dag:
        value = UNKNOWN[kind](dag)
        with pytest.raises(DagError, match=r"got the text .* stands for a value that is not known yet"):
            use({"nested": [text([value])]})
        with pytest.raises(DagError, match=r"got the text .* stands for a value that is not known yet"):
            use.expand(value=[text({"a": value})])


@task
def keep(value: Any) -> Any:
    return value


def test_a_text_in_a_mapped_group_has_the_value_of_the_own_index() -> None:
    with DAG("d", schedule=None) as dag:

        @task_group
        def g(c: Any) -> None:
            made = keep.override(task_id="made")(c)
            keep.override(task_id="text")(f"v_{made}")
            Custom(task_id="nested", headers={"a": [f"<{made}>"]}, method=c)

        g.expand(c=["1", "2"])
        made = dag.task("g.made").output
        keep.override(task_id="outside")(f"{made}")

    found = asyncio.run(dag.test()).xcoms

    assert found["g.text"]["return_value"] == ["v_1", "v_2"]
    assert found["g.nested"]["return_value"] == [[{"a": ["<1>"]}, "1"], [{"a": ["<2>"]}, "2"]]
    assert found["outside"]["return_value"] == "['1', '2']"


def test_a_coroutine_reads_a_text_of_its_own_index() -> None:
    @task
    async def echo(value: Any) -> Any:
        return value

    with DAG("d", schedule=None) as dag:

        @task_group
        def g(c: Any) -> None:
            echo(f"v_{keep(c)}")

        g.expand(c=["1", "2"])

    assert asyncio.run(dag.test()).xcoms["g.echo"]["return_value"] == ["v_1", "v_2"]


def test_a_text_is_refused_where_the_indexes_are_others() -> None:
    @task_group
    def inner(d: Any, made: Any) -> None:
        keep(f"v_{made}")

    @task_group
    def outer(c: Any) -> None:
        inner.partial(made=keep(c)).expand(d=[1, 2])

    with DAG("d"), pytest.raises(DagError, match="cannot be put into a text in the mapped group"):
        outer.expand(c=["1", "2"])


def test_a_function_that_uses_a_value_of_the_group_function_fails() -> None:
    with DAG("d", schedule=None) as dag:

        @task_group
        def g(c: Any) -> None:
            @task
            def branch() -> str:
                return "one" if c == "1" else "other"

            branch()

        g.expand(c=["1", "2"])

    run = asyncio.run(dag.test())

    assert run.state == "failed"
    assert "it is not known yet" in str(run.tasks[0].reason)


class Settings:
    def __init__(self, value: Any) -> None:
        self.value = value


class Untemplated(BaseOperator):
    def __init__(self, *, value: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.value = value

    def execute(self, context: Any) -> str:
        return f"got {self.value}"


class Mixed(BaseOperator):
    template_fields = ("rendered",)

    def __init__(self, *, plain: Any = None, rendered: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plain, self.rendered = plain, rendered


def reads_a_closure(value: Any) -> None:
    @task
    def closed() -> str:
        return f"got {value}"

    closed()


def reads_it_in_a_thread(value: Any) -> None:
    @task
    async def closed() -> str:
        return await asyncio.to_thread("got {}".format, value)

    closed()


def reads_a_default(value: Any) -> None:
    @task
    def closed(given: Any = value) -> str:
        return "got %s" % given  # noqa: UP031

    closed()


def reads_an_attribute(settings: Any) -> None:
    @task
    def reads(given: Settings) -> str:
        return ",".join(map(str, [given.value]))

    reads(Settings(settings))


def reads_a_queue(value: Any) -> None:
    @task
    def reads(given: Any) -> str:
        return json.dumps(list(given), default=str)

    reads(deque([value]))


AT_WORK: dict[str, Callable[[Any], Any]] = {
    "closure": reads_a_closure,
    "thread": reads_it_in_a_thread,
    "default": reads_a_default,
    "attribute": reads_an_attribute,
    "queue": reads_a_queue,
    "no template field": lambda value: Untemplated(task_id="reads", value=value),
    "callable of a sensor": lambda value: task.sensor(lambda: bool(f"{value}"), task_id="reads")(),  # type: ignore[call-overload]
}


@pytest.mark.parametrize("reads", AT_WORK.values(), ids=AT_WORK)
@pytest.mark.parametrize("unknown", [make, lambda: make()["key"], lambda: current_dag_param()])
def test_a_text_of_what_a_task_did_not_get_fails_it(unknown: Callable[[], Any], reads: Callable[[Any], Any]) -> None:
    with DAG("d", schedule=None, params={"p": 1}) as dag:
        reads(unknown())

    run = asyncio.run(dag.test())

    assert run.state == "failed"
    assert "cannot be put into a text in a task that did not get it" in str(run.tasks[-1].reason)


def current_dag_param() -> Any:
    dag = current_dag()
    assert dag is not None
    return dag.param("p")


def test_a_task_may_build_a_dag_of_its_own() -> None:
    @task
    def build() -> str:
        with DAG("other", schedule=None):
            return f"{make()}"

    with DAG("d", schedule=None) as dag:
        build()

    assert asyncio.run(dag.test()).xcoms["build"]["return_value"] == "{{ ti.xcom_pull(task_ids='make') }}"


@pytest.mark.parametrize("key", [lambda value: value, "k_{}".format, lambda value: (1, value)])
@pytest.mark.parametrize("give", [use, lambda given: use.expand(value=[given]), lambda given: use([(given,)])])
def test_no_value_is_the_key_of_a_dict(give: Callable[[Any], Any], key: Callable[[Any], Any]) -> None:
    with DAG("d"):
        value = make()
        with pytest.raises(DagError, match=r"a key of a dict.*not known yet"):
            give({key(value): 1})


@pytest.mark.parametrize("kind", [MappingProxyType, ChainMap, UserDict, OrderedDict])
def test_all_mappings_are_filled_in(kind: Callable[[Any], Any]) -> None:
    with DAG("d", schedule=None) as dag:
        keep(kind({"a": make(), "b": f"<{make()}>"}))

    assert asyncio.run(dag.test()).xcoms["keep"]["return_value"] == {"a": ["a"], "b": "<['a']>"}


@pytest.mark.parametrize(
    ("build", "is_told"),
    [
        (lambda text: Untemplated(task_id="t", value=text), True),
        (lambda text: Untemplated(task_id="t", value={"a": [text]}), True),
        (lambda text: Mixed.partial(task_id="t", plain=text).expand(rendered=[1]), True),
        (lambda text: Mixed(task_id="t", plain=text, rendered="other"), True),
        (lambda text: Mixed(task_id="t", plain=text, rendered=f"also {text}"), False),
        (lambda text: Mixed(task_id="t", rendered=text, doc_md=text), False),
        (lambda text: Mixed.partial(task_id="t", rendered=text).expand(plain=[1]), False),
        (lambda text: use.partial(value=text).expand(a=[1]), False),
        (lambda text: use(text), False),
    ],
)
def test_a_text_that_no_template_field_has_is_told(build: Callable[[str], Any], is_told: bool) -> None:
    with DAG("d") as dag:
        build(f"id_{make()}")

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        advise(dag)

    assert ["it stays a template" in str(one.message) for one in found] == [True] * is_told


OPTIONS: dict[str, Callable[[Any], Any]] = {
    "pool": lambda value: value,
    "queue": lambda value: value,
    "owner": lambda value: value,
    "executor": lambda value: value,
    "task_display_name": lambda value: value,
    "params": lambda value: {"a": [value]},
    "outlets": lambda value: [Asset("orders"), value if isinstance(value, Unknown) else Asset(f"s3://b/{value}")],
    "inlets": lambda value: value if isinstance(value, Unknown) else Asset("orders", uri=f"s3://b/{value}"),
}


@pytest.mark.parametrize("is_text", [False, True])
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize(
    "make_task", [lambda **given: use.override(**given)(1), lambda **given: Custom(task_id="t", **given)]
)
def test_an_option_that_is_read_before_the_task_starts_is_not_filled_in(
    make_task: Callable[..., Any], option: str, is_text: bool
) -> None:
    with DAG("d"):
        value: Any = f"{make()}" if is_text else make()
        with pytest.raises(DagError, match=f"got {option}= with a value that is not known yet"):
            make_task(**{option: OPTIONS[option](value)})


def test_a_task_waits_for_the_output_in_its_text() -> None:
    with DAG("d", schedule=None) as dag:
        one, two, three = (keep.override(task_id=name)(name) for name in ("one", "two", "three"))
        keep.override(task_id="reader")([f"{one} {two['key']}"])
        use.override(task_id="between")(two) >> keep.override(task_id="later")(f"{two}")
        keep.override(task_id="before")(f"{three}") >> dag.task("three")
    dag.to_spec()

    assert {task.task_id: task.upstream_task_ids for task in dag.tasks if task.upstream_task_ids} == {
        "reader": {"one", "two"},
        "between": {"two"},
        "later": {"between"},
        "three": {"before"},
    }


@pytest.mark.parametrize(
    ("uses", "imports"),
    [
        ("json.dumps({'a': value})", "import json"),
        ("','.join([value])", "import sys"),
        ("timedelta(days=value)", "from datetime import timedelta"),
        ("os.path.join('a', value)", "import os"),
        ("re.match('a', value)", "import re"),
        ("dict(**value)", "import sys"),
        ("value()", "import sys"),
        ("'a' + value", "import sys"),
        ("{'1': 2}[value]", "import sys"),
    ],
)
@pytest.mark.parametrize("module", ["airflow.sdk", "airflow.decorators", "aiosched"])
def test_the_import_error_of_what_python_refuses_says_why(tmp_path: Path, module: str, uses: str, imports: str) -> None:
    dag = "from airflow import DAG" if module == "airflow.decorators" else f"from {module} import DAG"
    (tmp_path / "bad.py").write_text(
        f"""{imports}
{dag}
from {module} import task, task_group

@task
def use(value): ...

with DAG("bad", schedule=None):
    @task_group
    def g(value):
        use({uses})

    g.expand(value=["1"])
"""
    )

    (error,) = load_dag_bag(tmp_path).errors.values()

    assert "not known yet. Pass it to a task" in error.message
    assert error.line == 11
