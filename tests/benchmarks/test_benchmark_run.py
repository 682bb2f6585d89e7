"""A small shape through the real service: the verification passes and every figure is there."""

from __future__ import annotations

import json

import psutil
import pytest

from benchmarks.measure import usage_of
from benchmarks.report import as_json
from benchmarks.run import Executor, run
from benchmarks.shapes import CallableKind, Shape, binary_tree

SMALL = Shape("tree-3x7", 3, 7, binary_tree(7))


@pytest.mark.slow
@pytest.mark.usefixtures("on_test_server")
@pytest.mark.parametrize(
    ("executor", "kind"), [("inline", "async"), ("inline", "sync"), ("local", "async"), ("local", "sync")]
)
async def test_a_shape_runs_and_is_verified(executor: Executor, kind: CallableKind) -> None:
    others = usage_of(psutil.Process().children(recursive=True)).peak_bytes  # what earlier tests have started
    result = await run(SMALL, executor=executor, kind=kind, lead=1.0, timeout=60.0)

    assert [problem for problem in result.problems if "--lead" not in problem] == []
    assert (result.tasks, result.executor, result.callable) == (21, executor, kind)
    assert 0 < result.lag.p50 <= result.lag.p99 <= result.makespan
    assert result.commit_p50 > 0
    assert result.statements > 0
    assert result.wal_bytes > 0
    assert result.usage.scheduler.cpu_seconds > 0
    assert (result.usage.workers.peak_bytes > others) == (executor == "local")
    assert json.loads(as_json(result))["tasks_per_second"] > 0
