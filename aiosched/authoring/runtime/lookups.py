"""How variables and connections are looked up: in backends of secrets, in the environment, then in the database.

The scheduler asks backends and the database, in one question, so without backends the environment is looked at first.

A running task asks its services. The top level of a DAG file asks what the process that imports it has set with
`answering`: a worker asks in the name of the attempt, a parsing child asks its parser.

The public classes are in variables.py and connections.py; the scheduler's side is in
`aiosched.scheduler.services.secret_services`.

Source: the semantics reference, section 27.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

from aiosched.authoring.base.context_values import bound
from aiosched.authoring.base.settings import defaults
from aiosched.authoring.runtime.context import running_context
from aiosched.authoring.runtime.services import Services, running_services
from aiosched.core.values.masking import secrets
from aiosched.errors import DagError, NotFound, NoVariable


class Kind(NamedTuple):
    """What is looked up. `name` is also the name of its service, `prefixes` are those of environment variables."""

    name: str
    prefixes: tuple[str, str]  # ours, Airflow's
    template: str
    command: str

    def variables(self, key: str) -> tuple[str, ...]:
        """The environment variables that may hold `key`, in order of precedence."""
        return tuple(prefix + key.upper() for prefix in self.prefixes)


VARIABLE: Final = Kind(
    "variable", ("AIOSCHED_VAR_", "AIRFLOW_VAR_"), "{{ var.value.%s }}", "aiosched variables set %s VALUE"
)
CONNECTION: Final = Kind(
    "connection", ("AIOSCHED_CONN_", "AIRFLOW_CONN_"), "{{ conn.%s.host }}", "aiosched connections add %s --uri URI"
)


class LookupAnswer(NamedTuple):
    """The text of a variable, or the fields of a connection; None when there is none."""

    value: Any
    database: bool = True  # whether there is a database
    backend: str | None = None  # the backend of secrets that has it


Answers = Callable[[str, str], Mapping[str, Any]]  # kind and key -> the answer of the service of that kind


def answering(answers: Answers | None) -> bound[Answers | None]:
    """Sets what answers the look-ups of DAG files that are imported in a block; None: nobody. It may block a while."""
    return bound(_answers_here, answers)


def answer_nothing(kind: str, key: str) -> Mapping[str, Any]:
    """The answer where no database is used."""
    return {"value": None, "database": False}


def answer_here(kind: str, key: str) -> Mapping[str, Any]:
    """What answers the look-ups of DAG files here says, for runs in the same process that have no scheduler."""
    return (_answers_here.get() or answer_nothing)(kind, key)


_answers_here: ContextVar[Answers | None] = ContextVar("aiosched_answers", default=None)


def look_up(kind: Kind, key: str) -> LookupAnswer:
    """The value of `key`, from plain code.

    Raises DagError if nobody can be asked here, and WouldBlock in a task on an event loop.
    """
    if not key.isprintable():
        return LookupAnswer(None)  # no name of one, and nothing that could be asked for
    found = from_environment(kind, key)
    if found is not None and not _may_be_overruled():
        return found
    if (services := running_services()) is not None:
        return _first(_answer(services.call(kind.name, get=key, **_reader())), found)
    return _first(_answer(_answers_for(kind, key)(kind.name, key)), found)


async def alook_up(kind: Kind, key: str) -> LookupAnswer:
    """As `look_up`, for coroutines."""
    if not key.isprintable():
        return LookupAnswer(None)  # no name of one, and nothing that could be asked for
    found = from_environment(kind, key)
    if found is not None and not _may_be_overruled():
        return found
    if (services := running_services()) is not None:
        return _first(_answer(await services.acall(kind.name, get=key, **_reader())), found)
    return _first(_answer(_answers_for(kind, key)(kind.name, key)), found)


def _may_be_overruled() -> bool:
    """Whether a backend of secrets may have what is in the environment, and somebody can ask it."""
    return defaults().backends_first and (running_services() is not None or _answers_here.get() is not None)


def _first(answer: LookupAnswer, in_environment: LookupAnswer | None) -> LookupAnswer:
    """What counts: the answer if it comes from a backend, else the environment."""
    return answer if in_environment is None or answer.backend is not None else in_environment


def _reader() -> dict[str, Any]:
    """Which task instance asks, for the audit log; nothing outside of one."""
    if (context := running_context()) is None:
        return {}
    ti = context["ti"]
    return {"by": [ti.task_id, ti.map_index, ti.try_number]}


def from_environment(kind: Kind, key: str) -> LookupAnswer | None:
    """The value from the environment, or None."""
    for name in kind.variables(key):
        if name in os.environ:
            return LookupAnswer(os.environ[name])
    return None


def not_found(kind: Kind, key: str, answer: LookupAnswer) -> NotFound:
    """The error for a name that is neither in the environment nor in the database."""
    error = NoVariable if kind is VARIABLE else NotFound
    remedy = f"Set {kind.variables(key)[0]} in the environment"
    if not answer.database:
        return error(f"There is no {kind.name} {key!r} here, because no database is used here. {remedy}.")
    return error(f"There is no {kind.name} {key!r}. {remedy}, or store it: {kind.command % key}")


def in_a_task(kind: Kind, key: str, verb: str) -> Services:
    """The services for a change of `key`; raises DagError outside a running task."""
    services = running_services()
    if services is None:
        raise DagError(f"The {kind.name} {key!r} can be {verb} only inside a task, not while a DAG file is read.")
    return services


def _answers_for(kind: Kind, key: str) -> Answers:
    answers = _answers_here.get()
    if answers is None:
        raise DagError(
            f"The {kind.name} {key!r} is not in the environment ({kind.variables(key)[0]}), and no database can be "
            "asked here: neither does a task run, nor does aiosched import a DAG file in this thread. "
            f"Use the template {kind.template % key} in an argument of a task, or read it inside the task."
        )
    return answers


def _answer(response: Mapping[str, Any]) -> LookupAnswer:
    found = LookupAnswer(response.get("value"), response.get("database", True), response.get("backend"))
    if (found.backend is not None or response.get("is_secret")) and isinstance(found.value, str):
        secrets.register(found.value)  # whatever its name is: it comes from a place for secrets, or is marked as one
    return found


# ---- templates ----


class Accessor:
    """`var.value`, `var.json` and `conn` of a template: `.name`, `["name"]` and `.get("name", default)`.

    An unknown name raises NotFound; `get` returns the default for it.
    """

    __slots__ = ("_kind", "_read")

    def __init__(self, kind: Kind, read: Callable[[str, Any], Any]) -> None:
        self._kind, self._read = kind, read

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Any:
        answer = look_up(self._kind, name)
        if answer.value is None:
            raise not_found(self._kind, name, answer)
        return self._read(name, answer.value)

    def get(self, name: str, default: Any = None) -> Any:
        """The value of `name`, or `default` when there is none."""
        answer = look_up(self._kind, name)
        return default if answer.value is None else self._read(name, answer.value)

    def __repr__(self) -> str:
        return f"<{self._kind.name}s>"
