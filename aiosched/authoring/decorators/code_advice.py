"""What the code and the templates of tasks will do wrong when they run, as far as reading them tells.

Only the parser and `dags check` ask for it, not workers. Names are resolved as the function would, so an alias of
`time.sleep` is known, and another function of that name is not meant. What is not certain is not said.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import sys
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, Final, NamedTuple

import jinja2
from jinja2 import meta, nodes

from aiosched.authoring.base.checks import AuthoringWarning, suggestion
from aiosched.authoring.dag.contents import DagContents
from aiosched.authoring.decorators.taskflow import TaskFunction
from aiosched.authoring.operators.python import PythonOperator
from aiosched.authoring.tasks.operator import BaseOperator
from aiosched.authoring.tasks.rendering import strings_in
from aiosched.authoring.tasks.task_context import CONTEXT_KEYS
from aiosched.core.values.messages import RETURN_VALUE
from aiosched.signatures import signature_of

_NEAR: Final = 0.8  # of difflib: a slip of the keys, and no other word
_MOST: Final = 500  # functions, and texts, of one file

_INSTEAD: Final = {  # functions that hold up everything else on the event loop -> what to write
    "time.sleep": "`await asyncio.sleep(…)`",
    "subprocess.run": "`await asyncio.create_subprocess_exec(…)`",
    "subprocess.call": "`await asyncio.create_subprocess_exec(…)`",
    "subprocess.check_call": "`await asyncio.create_subprocess_exec(…)`",
    "subprocess.check_output": "`await asyncio.create_subprocess_exec(…)`",
    "posix.system": "`await asyncio.create_subprocess_shell(…)`",
    "urllib.request.urlopen": "a client that is awaited",
    "socket.create_connection": "`await asyncio.open_connection(…)`",
    **{
        f"requests.api.{verb}": "a client that is awaited" for verb in ("get", "post", "put", "delete", "head", "patch")
    },
    **{f"httpx._api.{verb}": "`httpx.AsyncClient`" for verb in ("get", "post", "put", "delete", "head", "patch")},
}

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class _Advice(NamedTuple):
    file: str
    line: int
    text: str


def code_advice(dags: Iterable[DagContents]) -> list[str]:
    """Warnings about the tasks of the DAGs, one line each with file and line, in the order of the tasks."""
    found: dict[_Advice, None] = {}
    read: set[CodeType] = set()
    for dag in dags:
        texts: set[str] = set()
        for task in dag.tasks:
            function = _function_of(task)
            if function is not None and len(read) < _MOST:
                found |= dict.fromkeys(_on_call(task, function))
                if function.__code__ not in read:
                    read.add(function.__code__)
                    found |= dict.fromkeys(_on_body(dag, task, function))
            found |= dict.fromkeys(_on_templates(dag, task, texts))
    return [f"{one.file}:{one.line}: {AuthoringWarning.__name__}: {one.text}" for one in found]


def _function_of(task: BaseOperator) -> FunctionType | None:
    """The function with the code of a task, if it has one that can be read."""
    given = getattr(task, "partial_kwargs", None)
    function = getattr(task, "python_callable", None) if given is None else given.get("python_callable")
    function = inspect.unwrap(function) if callable(function) else None
    return function if isinstance(function, FunctionType) else None


# Calls


def _on_call(task: BaseOperator, function: FunctionType) -> Iterator[_Advice]:
    """Parameters that nobody gives, and whose names nearly are those of context values."""
    if not isinstance(task, PythonOperator):  # a mapped task gets more names than are known here
        return
    known = _context_of(task)
    given = {*task.op_kwargs, *list(signature_of(function).parameters)[: len(task.op_args)]}
    for name, parameter in signature_of(function).parameters.items():
        if name in known or name in given or parameter.default is not None:
            continue
        if near := get_close_matches(name, known, n=1, cutoff=_NEAR):
            yield _Advice(
                function.__code__.co_filename,
                function.__code__.co_firstlineno,
                f"The parameter {name!r} of {function.__name__} gets no value: is {near[0]!r} meant, which the "
                "context has?",
            )


def _context_of(task: BaseOperator) -> set[str]:
    return {*CONTEXT_KEYS, *(task._dialect.context if task._dialect is not None else ())}


# Code


def _on_body(dag: DagContents, task: BaseOperator, function: FunctionType) -> Iterator[_Advice]:
    definition = _definition(function)
    if definition is None:
        return
    file = function.__code__.co_filename
    for line, text in _Reader(dag, task, function, definition).advice():
        yield _Advice(file, line, text)


class _Reader:
    """Reads the body of one function."""

    def __init__(self, dag: DagContents, task: BaseOperator, function: FunctionType, definition: _Function) -> None:
        self._dag, self._task, self._name, self._definition = dag, task, function.__name__, definition
        scope = inspect.getclosurevars(function)
        self._scope: Mapping[str, Any] = {**vars(builtins), **function.__globals__, **scope.nonlocals}
        inner = [node for node in ast.walk(definition) if node is not definition]
        self._coroutines = {node.name for node in inner if isinstance(node, ast.AsyncFunctionDef)}
        assigned = {node.id for node in inner if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        self._local = {*assigned, *(node.arg for node in inner if isinstance(node, ast.arg))}
        self._local |= {node.name for node in inner if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        self._imported = dict(_imports(inner))

    def advice(self) -> Iterator[tuple[int, str]]:
        own = list(_own_nodes(self._definition))
        for node in own:
            match node:
                case ast.Expr(value=ast.Call() as call) | ast.Return(value=ast.Call() as call) if self._is_coroutine(
                    call
                ):
                    does = "does nothing" if isinstance(node, ast.Expr) else "returns a coroutine and no value"
                    remedy = "" if isinstance(self._definition, ast.AsyncFunctionDef) else ", in an `async def` task"
                    yield (
                        node.lineno,
                        (
                            f"`{ast.unparse(call.func)}(…)` in {self._name} is not awaited, so it {does}. "
                            f"Write `await` before it{remedy}."
                        ),
                    )
                case ast.Call() as call:
                    yield from self._on_call(call)
                case ast.Subscript(value=ast.Name() as name, slice=ast.Constant(value=str() as key)):
                    known = _context_of(self._task) | self._given()
                    near = get_close_matches(key, known, n=1, cutoff=_NEAR)  # others may be the application's
                    if self._is_context(name) and key not in known and near:
                        said = f"The context has no {key!r}, which {self._name} reads. Did you mean {near[0]!r}?"
                        yield node.lineno, said

    def _on_call(self, call: ast.Call) -> Iterator[tuple[int, str]]:
        target = self._resolved(call.func)
        if isinstance(self._definition, ast.AsyncFunctionDef) and (instead := _INSTEAD.get(_full_name(target))):
            yield (
                call.lineno,
                (
                    f"`{ast.unparse(call.func)}(…)` in {self._name} blocks the event loop, on which other tasks run. "
                    f"Write {instead}, or make the task a plain `def`."
                ),
            )
        if isinstance(target, TaskFunction):
            yield (
                call.lineno,
                (
                    f"{self._name} calls the task function {target.__name__} while it runs, which makes no task. "
                    f"Pass its output to {self._name}, or call `{ast.unparse(call.func)}.function(…)`."
                ),
            )
        if isinstance(call.func, ast.Attribute) and call.func.attr == "xcom_pull":
            given = {word.arg: word.value for word in call.keywords}
            if not given.keys() & {"dag_id", "run_id", None}:
                asked = given.get("task_ids", call.args[0] if call.args else None)
                for task_id in _constants(asked):
                    if not self._dag.has_task(task_id):
                        yield call.lineno, _no_task(self._dag, task_id)

    def _is_coroutine(self, call: ast.Call) -> bool:
        if isinstance(call.func, ast.Name) and call.func.id in self._coroutines - self._local:
            return True
        return inspect.iscoroutinefunction(self._resolved(call.func))

    def _is_context(self, name: ast.Name) -> bool:
        kwargs = self._definition.args.kwarg
        return kwargs is not None and name.id == kwargs.arg and isinstance(name.ctx, ast.Load)

    def _given(self) -> set[str]:
        given = getattr(self._task, "op_kwargs", None)
        return set(given) if isinstance(given, Mapping) else set()

    def _resolved(self, target: ast.expr) -> Any:
        """The object that a dotted name stands for; None if that is not known before it runs."""
        if isinstance(target, ast.Attribute):
            inner = self._resolved(target.value)
            return inspect.getattr_static(inner, target.attr, None) if inspect.ismodule(inner) else None
        if not isinstance(target, ast.Name) or target.id in self._local:
            return None
        if target.id in self._imported:
            return self._imported[target.id]
        return self._scope.get(target.id)


def _imports(nodes_: Iterable[ast.AST]) -> Iterator[tuple[str, Any]]:
    """What the imports inside a function bind, as far as it is imported already: nothing is imported for advice."""
    modules = sys.modules
    for node in nodes_:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name if alias.asname else alias.name.partition(".")[0]
                yield alias.asname or name, modules.get(name)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            for alias in node.names:
                yield alias.asname or alias.name, getattr(modules.get(node.module), alias.name, None)


def _own_nodes(definition: _Function) -> Iterator[ast.AST]:
    """The nodes of a function's body, without those of functions inside it, which may run elsewhere or never."""
    waiting: list[ast.AST] = list(reversed(definition.body))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            waiting.extend(reversed(list(ast.iter_child_nodes(node))))


def _constants(node: ast.expr | None) -> list[str]:
    """The texts of a constant, or of a list of them."""
    listed = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
    return [one.value for one in listed if isinstance(one, ast.Constant) and isinstance(one.value, str)]


def _full_name(target: object) -> str:
    return f"{getattr(target, '__module__', '')}.{getattr(target, '__qualname__', '')}"


def _no_task(dag: DagContents, task_id: str) -> str:
    hint = suggestion(task_id, dag.task_dict)
    return f"xcom_pull asks for {task_id!r}, and the DAG {dag.dag_id!r} has no such task: it gets None. {hint}"


def _definition(function: FunctionType) -> _Function | None:
    code = function.__code__
    return _definitions(code.co_filename).get((code.co_name, code.co_firstlineno))


@lru_cache(maxsize=64)  # of one import
def _definitions(file: str) -> dict[tuple[str, int], _Function]:
    """The functions of a file by name and first line, which is that of the first decorator."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return {}
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {(node.name, min([node.lineno, *(each.lineno for each in node.decorator_list)])): node for node in found}


# Templates


def _on_templates(dag: DagContents, task: BaseOperator, read: set[str]) -> Iterator[_Advice]:
    given = getattr(task, "partial_kwargs", None)
    options = vars(task) if given is None else given
    where = task._origin
    for name in task.operator_class.template_fields:
        for text in strings_in(options.get(name)):
            if ("{{" in text or "{%" in text) and text not in read and len(read) < _MOST and where is not None:
                read.add(text)
                for said in _on_text(dag, task, text):
                    yield _Advice(where.file, where.line, f"Task {task.task_id!r}, {name}: {said}")


def _on_text(dag: DagContents, task: BaseOperator, text: str) -> Iterator[str]:
    environment: jinja2.Environment = dag.templates.environment
    try:
        tree = environment.parse(text)
    except jinja2.TemplateSyntaxError as error:
        yield f"the template {text!r:.80} cannot be read: {error.message}"
        return
    known = {*_context_of(task), *environment.globals}
    if dag.template_undefined is None:
        for name in sorted(meta.find_undeclared_variables(tree) - known):
            yield f"nothing defines {name!r} in the template {text!r:.80}, so the task fails. {_meant(name, known)}"
    for refers in dag.templates.references(text):
        if refers.key == RETURN_VALUE and not dag.has_task(refers.task_id):
            yield _no_task(dag, refers.task_id)
    params = {*dag.params, *task.params}
    for node in tree.find_all(nodes.Getattr):
        if isinstance(node.node, nodes.Name) and node.node.name == "params" and node.attr not in params | _DICT:
            hint = _meant(node.attr, params)
            yield f"the DAG declares no param {node.attr!r}, so only runs whose conf has it succeed. {hint}"


_DICT: Final = {name for name in dir(dict) if not name.startswith("_")}


def _meant(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, sorted(known), n=1)
    return f"Did you mean {near[0]!r}?" if near else "Define it, or correct its name."
