"""Rendering of templates that a task steers itself: Airflow's methods, for code that calls or overrides them.

A class that overrides one of `RENDERING_METHODS` is rendered by these methods before each attempt, all others by
rendering.py, which is faster and renders the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from aiosched.authoring.base.params import DagParam
from aiosched.authoring.tasks.rendering import literal
from aiosched.authoring.tasks.xcom_arg import Output

if TYPE_CHECKING:
    import jinja2

    from aiosched.authoring.runtime.context import Context
    from aiosched.authoring.runtime.templates import TemplateEngine

RENDERING_METHODS: Final = (
    "_do_render_template_fields",
    "_render_nested_template_fields",
    "prepare_template",
    "render_template",
    "render_template_fields",
)


class Templater:
    """Base of operators and notifiers with template fields."""

    template_fields: ClassVar[Sequence[str]]
    template_ext: ClassVar[Sequence[str]]
    renders_itself: ClassVar[bool] = False  # whether the class overrides one of RENDERING_METHODS

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if any(getattr(cls, name) is not getattr(Templater, name) for name in RENDERING_METHODS):
            cls.renders_itself = True

    def prepare_template(self) -> None:
        """Override it to change template fields after the content of template files has replaced their names."""

    def get_template_env(self, dag: Any = None) -> jinja2.Environment:
        """The Jinja environment of the DAG: its folders, macros, filters and options."""
        return self._engine_of(dag).environment

    def _engine_of(self, dag: Any = None) -> TemplateEngine:
        from aiosched.authoring.runtime.templates import plain_engine  # imports Jinja

        dag = dag if dag is not None else getattr(self, "dag", None)
        engine: TemplateEngine = plain_engine() if dag is None else dag.templates
        return engine

    def resolve_template_files(self) -> None:
        """Replace the names of template files by their content, then call `prepare_template`."""
        for name in self.template_fields:
            value = getattr(self, name, None)
            if isinstance(value, str) and self._names_a_file(value):
                setattr(self, name, self._content_of(value))
            elif isinstance(value, list):
                setattr(self, name, [self._content_of(item) if self._names_a_file(item) else item for item in value])
        self.prepare_template()

    def render_template_fields(self, context: Context, jinja_env: jinja2.Environment | None = None) -> None:
        """Render the template fields in place."""
        self._do_render_template_fields(
            self, self.template_fields, context, jinja_env or self.get_template_env(), set()
        )

    def _do_render_template_fields(
        self,
        parent: Any,
        template_fields: Iterable[str],
        context: Context,
        jinja_env: jinja2.Environment,
        seen_oids: set[int],
    ) -> None:
        for name in template_fields:
            if (value := getattr(parent, name, None)) is not None:
                setattr(parent, name, self.render_template(value, context, jinja_env, seen_oids))

    def render_template(
        self,
        content: Any,
        context: Context,
        jinja_env: jinja2.Environment | None = None,
        seen_oids: set[int] | None = None,
    ) -> Any:
        """`content` with its templates rendered: a text, or containers of texts; outputs of tasks become values.

        An object with `template_fields` of its own is rendered in place, once.
        """
        seen = set() if seen_oids is None else seen_oids
        if isinstance(content, literal):
            return content.value
        if id(content) in seen:
            return content
        if isinstance(content, str):
            return self._render_text(content, context, jinja_env)
        if isinstance(content, Output | DagParam):
            return content.resolve(context)
        if isinstance(content, tuple) and hasattr(content, "_fields"):
            return type(content)(*(self.render_template(item, context, jinja_env, seen) for item in content))
        if type(content) in {list, tuple, set}:
            return type(content)(self.render_template(item, context, jinja_env, seen) for item in content)
        if isinstance(content, Mapping):
            return {key: self.render_template(item, context, jinja_env, seen) for key, item in content.items()}
        self._render_nested_template_fields(content, context, jinja_env or self.get_template_env(), seen)
        return content

    def _render_nested_template_fields(
        self, value: Any, context: Context, jinja_env: jinja2.Environment, seen_oids: set[int]
    ) -> None:
        """Render an object inside a template field in place. Override it for objects without `template_fields`."""
        if id(value) in seen_oids:
            return
        seen_oids.add(id(value))
        if fields := getattr(type(value), "template_fields", ()):
            self._do_render_template_fields(value, fields, context, jinja_env, seen_oids)

    def _render_text(self, text: str, context: Context, jinja_env: jinja2.Environment | None) -> Any:
        engine = self._engine_of()
        if jinja_env is not None and jinja_env is not engine.environment:
            given = jinja_env.get_template(text) if self._names_a_file(text) else jinja_env.from_string(text)
            return given.render(**dict(context.items()))  # it cannot compute values on demand
        return engine.file(text, context) if self._names_a_file(text) else engine.text(text, context)

    def _names_a_file(self, value: Any) -> bool:
        if not isinstance(value, str) or not self.template_ext or "\n" in value:
            return False
        return value.endswith(tuple(self.template_ext))

    def _content_of(self, name: str) -> str:
        environment = self.get_template_env()
        assert environment.loader is not None, "the environment of a DAG has a loader"
        return environment.loader.get_source(environment, name)[0]
