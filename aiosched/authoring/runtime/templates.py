"""Templates: sandboxed Jinja in the template fields of tasks, rendered before each attempt."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, Protocol

import jinja2
import jinja2.loaders
import jinja2.nativetypes
import jinja2.runtime
import jinja2.sandbox
from jinja2 import nodes
from jinja2.utils import missing

from aiosched.authoring.base.file_stamps import Stamp
from aiosched.core.values.messages import OWN_INDEX, RETURN_VALUE, XComRef

_TASK_INSTANCE: Final = ("ti", "task_instance")  # its names in templates
_NAMES: Final = "the task's context"  # among Jinja's own values, which included templates and macros are given


class TemplateOptions(Protocol):
    """The options of a DAG for its templates."""

    template_searchpath: list[str]
    template_undefined: type[jinja2.Undefined] | None
    jinja_environment_kwargs: dict[str, Any]
    render_template_as_native_obj: bool
    user_defined_macros: dict[str, Any]
    user_defined_filters: dict[str, Any]

    @property
    def folder(self) -> str: ...


class _Scope(jinja2.runtime.Context):
    """Names in a template: Jinja's own, then those of the task's context, which are computed only when used."""

    def resolve_or_missing(self, key: str) -> Any:
        value = super().resolve_or_missing(key)
        if value is missing and key in (names := self.parent.get(_NAMES, {})):
            return names[key]
        return value


class _TemplateFiles(jinja2.FileSystemLoader):
    """Finds template files. One that changed is read again, whatever its modification time says."""

    def get_source(self, environment: jinja2.Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        """The text and the path of `template`, and what says whether that is still its text."""
        before = self._stamp(template)
        settled = before is not None and before.is_settled()
        text, path, _ = super().get_source(environment, template)
        return text, path, lambda: settled and self._stamp(template) == before

    def _stamp(self, template: str) -> Stamp | None:
        """That of the first file of this name in the folders."""
        parts = jinja2.loaders.split_template_path(template)
        for folder in self.searchpath:
            try:
                status = os.stat(os.path.join(folder, *parts))  # noqa: PTH116, PTH118
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                return Stamp.of(status)
        return None


class _Environment(jinja2.sandbox.SandboxedEnvironment):
    context_class = _Scope


class _NativeEnvironment(jinja2.sandbox.SandboxedEnvironment, jinja2.nativetypes.NativeEnvironment):
    context_class = _Scope


class TemplateEngine:
    """Renders strings and template files for the tasks of one DAG. Each is compiled once."""

    def __init__(self, environment: jinja2.Environment) -> None:
        self.environment = environment
        self._compiled = lru_cache(maxsize=1024)(environment.from_string)
        self.references = lru_cache(maxsize=1024)(self._references)

    @classmethod
    def of(cls, dag: TemplateOptions | None) -> TemplateEngine:
        """The engine with the folders, macros, filters and options of `dag`."""
        options: dict[str, Any] = {
            "undefined": jinja2.StrictUndefined,
            "keep_trailing_newline": True,
            "extensions": ["jinja2.ext.do"],
        }
        if dag is None:
            return cls(_filtered(_Environment(**options), {}))
        options["loader"] = _TemplateFiles([dag.folder, *dag.template_searchpath])
        if dag.template_undefined is not None:
            options["undefined"] = dag.template_undefined
        options.update(dag.jinja_environment_kwargs)
        kind = _NativeEnvironment if dag.render_template_as_native_obj else _Environment
        environment = kind(**options)
        environment.globals.update(dag.user_defined_macros)
        return cls(_filtered(environment, dag.user_defined_filters))

    def text(self, source: str, context: Mapping[str, Any]) -> Any:
        """`source` rendered: a string, or a Python value when the DAG renders native objects."""
        return self._render(self._compiled(source), context)

    def file(self, name: str, context: Mapping[str, Any]) -> Any:
        """The template file `name` rendered. It is searched in the DAG file's folder and the search path."""
        return self._render(self.environment.get_template(name), context)

    def _render(self, template: jinja2.Template, context: Mapping[str, Any]) -> Any:
        try:
            return self.environment.concat(template.root_render_func(template.new_context({_NAMES: context})))
        except Exception:
            self.environment.handle_exception()

    def _references(self, source: str) -> tuple[XComRef, ...]:
        """The XComs that `source` pulls with constant arguments."""
        try:
            tree = self.environment.parse(source)
        except jinja2.TemplateSyntaxError:
            return ()  # rendering reports it
        found: dict[XComRef, None] = {}
        for call in tree.find_all(nodes.Call):
            found.update(dict.fromkeys(_pulled(call)))
        return tuple(found)


def _pulled(call: nodes.Call) -> Iterator[XComRef]:
    """The XComs of the own run that a call `ti.xcom_pull("a", key="b")` reads, if its arguments are constants."""
    target = call.node
    if not (isinstance(target, nodes.Getattr) and target.attr == "xcom_pull" and isinstance(target.node, nodes.Name)):
        return
    if target.node.name not in _TASK_INSTANCE:
        return
    try:
        given = dict(zip(("task_ids", "key", "map_indexes"), map(_constant, call.args), strict=False))
        given.update({keyword.key: _constant(keyword.value) for keyword in call.kwargs})
    except nodes.Impossible:
        return
    if given.get("dag_id") is not None or given.get("run_id") is not None:
        return
    task_ids, key, map_index = given.get("task_ids"), given.get("key", RETURN_VALUE), given.get("map_indexes")
    listed = [task_ids] if isinstance(task_ids, str) else task_ids if isinstance(task_ids, list | tuple) else []
    indexes = map_index if isinstance(map_index, list | tuple) else [map_index]
    if isinstance(key, str) and all(index is None or isinstance(index, int) for index in indexes):
        ids = [task_id for task_id in listed if isinstance(task_id, str)]
        yield from (XComRef(task_id, key, index) for task_id in ids for index in indexes)


def _constant(argument: nodes.Expr) -> Any:
    """The value of an argument; OWN_INDEX for `ti.map_index`. Raises nodes.Impossible if it is not constant."""
    of = argument.node if isinstance(argument, nodes.Getattr) and argument.attr == "map_index" else None
    return OWN_INDEX if isinstance(of, nodes.Name) and of.name in _TASK_INSTANCE else argument.as_const()


@lru_cache(maxsize=1)
def plain_engine() -> TemplateEngine:
    """The engine of tasks without a DAG."""
    return TemplateEngine.of(None)


def _filtered(environment: jinja2.Environment, filters: Mapping[str, Any]) -> jinja2.Environment:
    environment.filters.update(
        {
            "ds": lambda moment: moment.strftime("%Y-%m-%d"),
            "ds_nodash": lambda moment: moment.strftime("%Y%m%d"),
            "ts": lambda moment: moment.isoformat(),
            "ts_nodash": lambda moment: moment.strftime("%Y%m%dT%H%M%S"),
            "ts_nodash_with_tz": lambda moment: moment.isoformat().replace("-", "").replace(":", ""),
            **filters,
        }
    )
    return environment
