"""The Celery application of the bare engine: `celery -A benchmarks.celery_bodies worker`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from celery import Celery, chain, chord, group

from benchmarks.bare_engines import body
from benchmarks.shapes import Shape, levels


def app_on(broker: str) -> Celery:
    """The application on a broker; results are ignored, which its documentation advises where nobody needs them.

    Short tasks want a large prefetch multiplier (the same).
    """
    made = Celery("bodies", broker=broker, backend=broker, set_as_current=False)
    made.conf.update(task_ignore_result=True, worker_prefetch_multiplier=64)
    made.task(body, name="body")
    return made


def signature(made: Celery, records: str, dag_id: str, task_id: str) -> Any:
    """One call, which gets nothing from the one before it."""
    return made.signature("body", args=(records, dag_id, task_id), immutable=True)


def canvases(made: Celery, shape: Shape, records: str) -> Iterator[Any]:
    """One canvas for each DAG, or the single calls where no task waits for another.

    Tasks in a line are a chain, a task with several below it has a group of their canvases, and a task that waits for
    several is the body of a chord (of a shape whose last level is that one task).
    """
    below: dict[str, list[str]] = {name: [] for name in shape.task_ids()}
    for task_id, upstreams in shape.upstreams().items():
        for upstream in upstreams:
            below[upstream].append(task_id)
    waits = any(len(upstreams) > 1 for upstreams in shape.upstreams().values())
    for dag_id in shape.dag_ids():
        calls = {name: signature(made, records, dag_id, name) for name in shape.task_ids()}
        if not shape.edges:
            yield from calls.values()
        elif waits:
            first, header, (last,) = levels(shape)
            sides = [calls[name].set(ignore_result=False) for name in header]
            yield chain(calls[first[0]], chord(sides, calls[last], app=made), app=made)
        else:
            yield _tree(made, calls, below, shape.task_ids()[0])


def _tree(made: Celery, calls: dict[str, Any], below: dict[str, list[str]], root: str) -> Any:
    """A task, and all that is below it."""
    line = [calls[root]]
    while len(below[root]) == 1:
        root = below[root][0]
        line.append(calls[root])
    if below[root]:
        line.append(group([_tree(made, calls, below, name) for name in below[root]], app=made))
    return chain(*line, app=made) if len(line) > 1 else line[0]


app = app_on(os.environ.get("BENCHMARK_BROKER", ""))
