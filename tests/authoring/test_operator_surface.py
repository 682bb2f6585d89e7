"""What operators, hooks, DAGs and groups offer besides running: relatives, template methods, links, traversal."""

from __future__ import annotations

import inspect
import re
from typing import Any, ClassVar

import pytest

from aiosched import DAG, BaseNotifier, BaseOperator, DagError, EmptyOperator, TaskGroup, task
from aiosched.authoring.base.params import DagParam
from aiosched.authoring.decorators.custom import FunctionOperator
from aiosched.authoring.decorators.taskflow import task_decorator_factory
from aiosched.authoring.operators.sensor import BaseSensorOperator, poke_mode_only
from aiosched.authoring.operators.skipping import BranchMixIn, SkipMixin
from aiosched.authoring.runtime.context import current_context
from aiosched.authoring.runtime.xcoms import TaskXCom
from aiosched.authoring.tasks.links import BaseOperatorLink, push_links
from aiosched.core.values.links import TaskLink, link_of
from aiosched.errors import AioschedError, BranchError, DagCycleError
from tests.authoring.authoring_builders import context_of, run_task


class JobLink(BaseOperatorLink):
    name = "Job"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        return f"https://jobs.example/{TaskXCom.get_value(ti_key=ti_key, key='job')}"


class BrokenLink(BaseOperatorLink):
    name = "Broken"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        raise KeyError("no job")


class Nested:
    def __init__(self, text: str) -> None:
        self.text = text


class Rendering(BaseOperator):
    """Renders objects without template fields, and changes a field after its file was read."""

    template_fields: ClassVar[tuple[str, ...]] = ("query", "nested")
    template_ext: ClassVar[tuple[str, ...]] = (".sql",)

    def __init__(self, *, query: str, nested: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.query, self.nested = query, nested

    def prepare_template(self) -> None:
        self.query = self.query.strip()

    def _render_nested_template_fields(self, value: Any, context: Any, jinja_env: Any, seen_oids: set[int]) -> None:
        if isinstance(value, Nested):
            self._do_render_template_fields(value, ("text",), context, jinja_env, seen_oids)
            return
        super()._render_nested_template_fields(value, context, jinja_env, seen_oids)

    def execute(self, context: Any) -> Any:
        return [self.query, self.nested.text if self.nested else None]


def diamond() -> DAG:
    with DAG("d") as dag:
        a, b, c, e = (EmptyOperator(task_id=name) for name in "abce")
        a >> [b, c] >> e
    return dag


def test_relatives_are_near_and_far() -> None:
    a = diamond().task("a")

    assert a.get_direct_relative_ids() == {"b", "c"}
    assert a.get_flat_relative_ids() == {"b", "c", "e"}
    assert [one.task_id for one in diamond().task("e").get_flat_relatives(upstream=True)] == ["a", "b", "c"]
    assert a.has_dag()
    assert a.get_dag() is a.dag


def test_relatives_of_a_task_without_a_dag_are_refused_with_a_remedy() -> None:
    lone = EmptyOperator(task_id="t")
    lone.downstream_task_ids.add("u")

    assert not lone.has_dag()
    with pytest.raises(AioschedError, match="in no DAG"):
        lone.get_direct_relatives()


def test_render_template_fills_in_texts_inside_containers() -> None:
    with DAG("d"):
        operator = EmptyOperator(task_id="t")
    context = context_of(operator)

    assert operator.render_template("on {{ ds }}", context) == "on 2026-01-02"
    assert operator.render_template({"a": ["{{ run_id }}", 3]}, context) == {"a": ["manual__1", 3]}
    environment = operator.get_template_env()
    assert operator.render_template("{{ ds }}", context, environment.overlay()) == "2026-01-02"


async def test_a_class_that_steers_its_rendering_is_rendered_by_its_own_methods(tmp_path: Any) -> None:
    (tmp_path / "q.sql").write_text("  SELECT '{{ ds }}'  \n")
    with DAG("d", template_searchpath=str(tmp_path)):
        operator = Rendering(task_id="t", query="q.sql", nested=Nested("{{ ds_nodash }}"))

    result, _ = await run_task(operator)

    assert result == ["SELECT '2026-01-02'", "20260102"]
    assert operator.query == "q.sql"  # the task itself is unchanged


class Early(BaseOperator):
    def __init__(self, *, size: int, **kwargs: Any) -> None:
        if size > 9:
            self.log.warning("size=%d is large", size)
        super().__init__(**kwargs)


def test_an_operator_may_log_before_it_is_constructed(caplog: pytest.LogCaptureFixture) -> None:
    Early(task_id="t", size=10)

    assert "size=10 is large" in caplog.text


def test_links_are_pushed_and_a_broken_one_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with DAG("d"):
        operator = EmptyOperator(task_id="t")
    operator.operator_extra_links = (JobLink(), BrokenLink())
    context = context_of(operator)
    with current_context(context):
        TaskXCom.set("job", 7)

        push_links(operator, context["ti"])

    assert context["ti"].pushed == {"job": 7, "_link_JobLink": {"name": "Job", "url": "https://jobs.example/7"}}
    assert "Broken" in caplog.text
    assert operator.extra_links == ["Broken", "Job"]


@pytest.mark.parametrize(
    ("key", "value", "link"),
    [
        ("_link_A", '{"name": "A", "url": "https://a.example"}', TaskLink("A", "https://a.example")),
        ("_link_A", '{"name": "A", "url": "javascript:alert(1)"}', None),
        ("_link_A", '"https://a.example"', None),
        ("_link_A", '{"name": 3, "url": "https://a.example"}', None),
        ("_link_A", '{"name": "A"', None),
        ("a", '{"name": "A", "url": "https://a.example"}', None),
    ],
)
def test_only_addresses_of_the_web_are_shown_as_links(key: str, value: str, link: TaskLink | None) -> None:
    assert link_of(key, value) == link


class Choosing(BaseOperator, SkipMixin):
    def execute(self, context: Any) -> None:
        self.skip_all_except(context["ti"], "b")


class Skipping(BaseOperator, SkipMixin):
    def execute(self, context: Any) -> None:
        self.skip(context["ti"], [one for one in self.get_direct_relatives() if one.task_id == "c"])


class Branching(BaseOperator, BranchMixIn):
    def execute(self, context: Any) -> Any:
        return self.do_branch(context, ["nowhere"])


@pytest.mark.parametrize(("kind", "skipped", "followed"), [(Choosing, None, ("b",)), (Skipping, ("c",), None)])
async def test_mixins_decide_what_is_skipped(kind: Any, skipped: Any, followed: Any) -> None:
    with DAG("d") as dag:
        kind(task_id="t") >> [EmptyOperator(task_id="b"), EmptyOperator(task_id="c")]

    _, ti = await run_task(dag.task("t"))

    assert ti.skip_decision is not None
    assert (ti.skip_decision.skipped, ti.skip_decision.followed) == (skipped, followed)
    assert dag.to_spec().tasks[0].can_skip_downstream


async def test_a_branch_to_an_unknown_task_is_an_error() -> None:
    with DAG("d"):
        operator = Branching(task_id="t")

    with pytest.raises(BranchError, match="nowhere"):
        await run_task(operator)


def test_a_sensor_may_allow_poking_only() -> None:
    @poke_mode_only
    class Keeping(BaseSensorOperator):
        pass

    with DAG("d"):
        assert Keeping(task_id="t").mode == "poke"
        with pytest.raises(DagError, match="use 'poke'"):
            Keeping(task_id="u", mode="reschedule")


class Shouting(BaseOperator):
    def __init__(self, *, text: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.text = text

    def execute(self, context: Any) -> str:
        return self.text.upper()


class DecoratedShouting(FunctionOperator, Shouting):
    custom_operator_name = "@task.shout"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(text="later", **kwargs)

    def execute(self, context: Any) -> Any:
        self.text = self.python_callable(*self.op_args, **self.op_kwargs)
        return super().execute(context)


async def test_a_decorator_of_ones_own_makes_tasks_of_another_operator() -> None:
    def shout(**options: Any) -> Any:
        return task_decorator_factory(decorated_operator_class=DecoratedShouting, **options)

    @shout(retries=2)
    def greet(name: str) -> str:
        return f"hello {name}"

    with DAG("d") as dag:
        greet("you")

    operator = dag.task("greet")
    assert operator.retries == 2
    assert (await run_task(operator))[0] == "HELLO YOU"
    assert isinstance(operator, FunctionOperator)
    assert operator.get_python_source().startswith("def greet(name: str)")


class Giving(FunctionOperator):
    """Gives the function a session, and makes its parameter `spark` optional."""

    def __init__(self, *, python_callable: Any, op_kwargs: Any = None, **kwargs: Any) -> None:
        signature = inspect.signature(python_callable)
        parameters = [p.replace(default=None) if p.name == "spark" else p for p in signature.parameters.values()]
        python_callable.__signature__ = signature.replace(parameters=parameters)
        given = {"session": None} if "session" in signature.parameters else {}
        super().__init__(python_callable=python_callable, op_kwargs={**(op_kwargs or {}), **given}, **kwargs)


def test_the_operator_of_a_decorator_may_give_arguments_itself() -> None:
    def giving(function: Any, task_id: str) -> Any:
        return task_decorator_factory(function, decorated_operator_class=Giving, task_id=task_id)()

    with DAG("d") as dag:
        giving(lambda session: 1, "asks")
        giving(lambda spark: 1, "sparks")
        with pytest.raises(DagError, match="'day'"):
            giving(lambda session, day: 1, "more")

    assert dag.task("asks").op_kwargs == {"session": None}


def test_a_decorator_that_no_provider_registers_names_the_way_to_get_it() -> None:
    with pytest.raises(AttributeError, match=r"@task\.docker.*aiosched providers list"):
        task.docker  # noqa: B018


def test_a_dag_is_walked_in_topological_order() -> None:
    assert [one.task_id for one in diamond().topological_sort()] == ["a", "b", "c", "e"]
    dag = diamond()
    dag.task("e") >> dag.task("a")

    with pytest.raises(DagCycleError):
        dag.topological_sort()


@pytest.mark.parametrize(
    ("wanted", "options", "ids"),
    [
        ("b", {}, {"a", "b"}),
        (["b"], {"include_upstream": False}, {"b"}),
        (["b"], {"include_upstream": False, "include_direct_upstream": True}, {"a", "b"}),
        (re.compile("[bc]"), {"include_downstream": True}, {"a", "b", "c", "e"}),
    ],
)
def test_a_part_of_a_dag_is_a_dag(wanted: Any, options: Any, ids: set[str]) -> None:
    dag = diamond()

    part = dag.partial_subset(wanted, **options)

    assert set(part.task_dict) == ids
    assert part.task("b").dag is part
    assert all(one.upstream_task_ids <= ids for one in part.tasks)
    part.validate()
    assert len(dag.tasks) == 4


def test_groups_are_a_tree_below_the_root() -> None:
    with DAG("d") as dag:
        first = EmptyOperator(task_id="first")
        with TaskGroup("g", doc_md="What it does\n\nand more") as group:
            first >> EmptyOperator(task_id="x") >> EmptyOperator(task_id="y")

    assert list(dag.task_group.children) == ["first", "g"]
    assert dag.task_group.get_child_by_label("g") is group
    assert dag.task_group_dict == {"g": group}
    assert [one.task_id for one in group.get_roots()] == ["g.x"]
    assert [one.task_id for one in group.get_leaves()] == ["g.y"]
    assert group.get_child_by_label("x") is dag.task("g.x")
    assert group.upstream_task_ids == {"first"}
    assert group.tooltip == "What it does"
    assert dag.partial_subset("g.y").task_groups["g"] is not group


async def test_a_notifier_prefers_its_coroutine() -> None:
    class Sending(BaseNotifier):
        template_fields = ("text",)
        sent: ClassVar[list[str]] = []

        def __init__(self, text: str, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.text = text

        def notify(self, context: Any) -> None:
            raise AssertionError("not this one")

        async def async_notify(self, context: Any) -> None:
            self.sent.append(self.text)

    with DAG("d"):
        operator = EmptyOperator(task_id="t")

    await Sending("{{ ds }}")(context_of(operator))

    assert Sending.sent == ["2026-01-02"]


def test_the_members_of_a_task_instance_name_its_try() -> None:
    with DAG("d"):
        operator = EmptyOperator(task_id="t")
    ti = context_of(operator)["ti"]

    assert ti.key == ("d", "t", "manual__1", 2, -1)
    assert ti.key.primary == ("d", "t", "manual__1", -1)
    assert (ti.operator, ti.queue, ti.is_mapped, ti.get_dagrun().run_id) == (
        "EmptyOperator", "default", False, "manual__1",
    )  # fmt: skip
    assert isinstance(DagParam("x"), DagParam)
