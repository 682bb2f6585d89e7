"""Requests for a job by its function, and typed values in what a request says. Pure.

A job is a DAG of one task, a function whose arguments are params of the DAG; `declare_job` notes it at the function.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from aiosched.core.values.texts import cut_repr
from aiosched.core.values.typed_json import NotJson, plain_text
from aiosched.core.values.typed_objects import named_parts
from aiosched.errors import Refused, did_you_mean

_JOB: Final = "__aiosched_job__"


class Job(NamedTuple):
    """A function as a job: the id of its DAG, and the names of its arguments with whether a request has to give them.

    What the context or the application gives is no argument.
    """

    dag_id: str
    arguments: Mapping[str, bool]


def declare_job(function: Callable[..., Any], job: Job) -> None:
    """Let requests name the job by its function, unless it is none of Python's."""
    with contextlib.suppress(AttributeError):
        setattr(getattr(function, "__func__", function), _JOB, job)


def job_behind(function: Callable[..., Any]) -> Job:
    """The job that a function is. Raises Refused."""
    found = getattr(function, _JOB, None)
    if not isinstance(found, Job):
        name = getattr(function, "__name__", repr(function))
        raise Refused(f"{name} is no job: give the id of a DAG, or a function below `@scheduler.job(…)`.")
    return found


def dag_id_of(given: object) -> str:
    """The id by which a caller in Python names a DAG. Raises Refused for anything else, as for the DAG itself."""
    if isinstance(given, str):
        return given
    named = getattr(given, _JOB, given)  # a job, or a DAG
    if isinstance(meant := getattr(named, "dag_id", None), str):
        raise Refused(f"Name a DAG by its id: give {meant!r}, not the {type(given).__name__} itself.")
    raise Refused(f"Name a DAG by its id, which is text, not {cut_repr(given)}.")


def called(job: Job, conf: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The conf of a request for a job with these arguments, which `conf` may also have. Raises Refused."""
    call = f"{job.dag_id}()"
    if twice := sorted(conf.keys() & arguments.keys()):
        raise Refused(f"{call} is given {', '.join(map(repr, twice))} twice: in conf, too.")
    given = {**conf, **arguments}
    for name in given:
        if name not in job.arguments:
            hint = did_you_mean(str(name), job.arguments)
            raise Refused(f"{call} has no argument {name!r}; it has {', '.join(job.arguments) or 'none'}.{hint}")
    for name, is_needed in job.arguments.items():
        if is_needed and name not in given:
            raise Refused(f"{call} lacks the argument {name!r}.")
    return given


def with_types(what: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Values of a caller in Python as JSON with marks, which tasks get back as they went. Raises Refused."""
    if plain_text(values) is not None:
        return values
    try:
        return named_parts(values, sys.modules.__getitem__)
    except NotJson as error:
        refused = Refused(f"{what}{error.place} {error.what}.")
        refused.exit_code = 2
        raise refused from None
