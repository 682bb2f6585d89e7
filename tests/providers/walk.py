"""A walk over the operators, sensors and transfers of installed provider packages: is each of them usable?

    python -m tests.providers.walk FOLDER PACKAGE…     writes one JSON object a class to stdout

FOLDER was made by `aiosched providers install --target FOLDER …`. For each class: import its module, construct it with
made-up arguments, render its templates, and serialize its DAG. `stage` is the one that failed, "" for none. What else
a package declares (hooks, triggers, notifiers, links, decorators) is only imported.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import logging
import re
import site
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

import msgspec

from aiosched import DAG, BaseOperator
from aiosched.airflow.finder import install
from aiosched.airflow.objects.loading import import_string
from aiosched.authoring.tasks.defaults_by_name import parameters_of
from aiosched.providers import installed_providers
from tests.authoring.authoring_builders import attempt_of, context_of
from tests.providers.made_up import made_up

_MOST_CORRECTIONS = 8


@dataclass
class Walked:
    """What became of one class."""

    path: str
    stage: str = ""  # import, construct, template, serialize
    error: str = ""
    is_task: bool = True  # or another part of the package


def walk(package: str) -> Iterator[Walked]:
    """Walk over one installed package."""
    provider = installed_providers()[package]
    for module in sorted({*provider.operators, *provider.sensors, *provider.transfers}):
        try:
            loaded = import_module(module)
        except Exception as error:
            yield Walked(module, "import", _said(error))
            continue
        for name, kind in sorted(vars(loaded).items()):
            if _is_walked(kind, module) and not name.startswith("_"):
                yield _try(kind)


def walk_parts(package: str) -> Iterator[Walked]:
    """Import what else the package declares."""
    provider = installed_providers()[package]
    classes = {*provider.notifications, *(provider.declared.get("extra-links") or ()), *provider.decorators.values()}
    classes |= {one.hook for one in provider.connection_types}
    for name in sorted({*provider.hooks, *provider.triggers, *classes}):
        walked = Walked(name, is_task=False)
        try:
            (import_string if name in classes else import_module)(name)
        except Exception as error:
            walked.stage, walked.error = "import", _said(error)
        yield walked


def _is_walked(kind: Any, module: str) -> bool:
    if not inspect.isclass(kind) or not issubclass(kind, BaseOperator) or kind.__module__ != module:
        return False
    return not inspect.isabstract(kind) and "Base" not in kind.__name__


def _try(kind: type[BaseOperator]) -> Walked:
    walked = Walked(f"{kind.__module__}.{kind.__qualname__}", "construct")
    try:
        task = _construct(kind)
        walked.stage = "template"
        _render(task)
        walked.stage = "serialize"
        dag = task.dag
        assert isinstance(dag, DAG)
        msgspec.json.encode(dag.to_spec())
    except Exception as error:
        walked.error = _said(error)
        return walked
    walked.stage = ""
    return walked


def _construct(kind: type[BaseOperator]) -> BaseOperator:
    """A task of that class. Arguments that it says are missing or wrong are made up, too."""
    possible = _parameters(kind)
    given = {name: made_up(p) for name, p in possible.items() if p.default is p.empty and name != "task_id"}
    wrong: set[str] = set()
    for _ in range(_MOST_CORRECTIONS):
        try:
            with DAG("walked"):
                return kind(task_id="t", **given)
        except Exception as error:
            named = [name for name in re.findall(r"\w+", str(error)) if name in possible and name not in wrong]
            fresh = [name for name in named if name not in given]
            if fresh:
                given[fresh[0]] = made_up(possible[fresh[0]])
                wrong.add(fresh[0])
            elif named:  # it does not like the value: leave it out
                given.pop(named[0])
                wrong.add(named[0])
            else:
                raise
    with DAG("walked"):
        return kind(task_id="t", **given)


def _parameters(kind: type[BaseOperator]) -> dict[str, inspect.Parameter]:
    """The parameters of the class and those of its bases that reach it, but for those of all tasks."""
    found: dict[str, inspect.Parameter] = {}
    ours = parameters_of(BaseOperator)
    for ancestor in kind.__mro__:
        init = ancestor.__dict__.get("__init__")
        if ancestor is BaseOperator:
            break
        if inspect.isfunction(init):
            parameters = [*inspect.signature(init).parameters.values()][1:]
            for p in parameters:
                if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name not in ours:
                    found.setdefault(p.name, p)
            if not any(p.kind is p.VAR_KEYWORD for p in parameters):
                break
    return found


def _render(task: BaseOperator) -> None:
    for name in task.template_fields:
        if isinstance(getattr(task, name, None), str):
            with contextlib.suppress(AttributeError):  # a property
                setattr(task, name, "on {{ ds }}")
    rendered: Any = task.render(context_of(task, attempt_of("t", dag_id="walked")))
    unrendered = [
        name for name in task.template_fields
        if isinstance(value := getattr(rendered, name, None), str) and "{{" in value
    ]  # fmt: skip
    if unrendered:
        raise AssertionError(f"not rendered: {unrendered}")


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:600]


def share(ones: Sequence[Walked]) -> float:
    """The share of those without an error, in percent."""
    return 100 * sum(not one.stage for one in ones) / max(1, len(ones))


def main(folder: str, packages: list[str]) -> None:
    """Walk and write; what the packages print is left out."""
    site.addsitedir(folder)
    install("compat")
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    for package in packages:
        with contextlib.redirect_stdout(io.StringIO()):
            found = [*walk(package), *walk_parts(package)]
        for one in found:
            sys.stdout.write(json.dumps({"package": package, **asdict(one)}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
