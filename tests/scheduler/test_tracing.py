"""Traces: a span for each run and, in its trace, one for each attempt; nothing without an SDK."""

from __future__ import annotations

import json
import subprocess
import sys

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from aiosched import DAG, task
from aiosched.scheduler import Scheduler
from aiosched.scheduler.effects.tracing import open_tracing
from aiosched.scheduler.session.session import Session


def sales() -> DAG:
    @task
    async def extract() -> None: ...

    @task(retries=1, retry_delay=0)
    async def load() -> None:
        raise RuntimeError("the warehouse is closed")

    with DAG("sales", schedule=None) as dag:
        extract() >> load()  # type: ignore[operator]
    return dag


async def test_a_run_is_a_trace_with_a_span_for_each_attempt(dsn: str) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    async with Scheduler(dsn=dsn, dags=[sales()]) as scheduler:
        session = scheduler.session
        assert isinstance(session, Session)
        session.tracing = open_tracing(provider)
        await scheduler.trigger("sales", run_id="one")
        await scheduler.wait_idle()

    spans: dict[str, list[ReadableSpan]] = {}
    for span in exporter.get_finished_spans():
        spans.setdefault(span.name, []).append(span)
    (run,) = spans["run sales"]
    (extract,) = spans["task sales.extract"]
    loads = spans["task sales.load"]
    assert run.parent is None
    assert all(
        span.parent is not None
        and span.parent.span_id == run.context.span_id
        and span.context.trace_id == run.context.trace_id
        for span in (extract, *loads)
    )
    assert [dict(span.attributes or {})["aiosched.try_number"] for span in loads] == [1, 2]
    assert (run.status.status_code, extract.status.status_code) == (StatusCode.ERROR, StatusCode.UNSET)
    assert [(span.status.status_code, span.status.description) for span in loads] == [
        (StatusCode.ERROR, "RuntimeError: the warehouse is closed")
    ] * 2
    facts = dict(run.attributes or {})
    assert (facts["aiosched.run_id"], facts["aiosched.state"]) == ("one", "failed")
    assert run.start_time <= extract.start_time <= extract.end_time <= loads[0].start_time  # type: ignore[operator]


def test_without_an_sdk_nothing_is_imported() -> None:
    program = """
import json, sys
from aiosched.scheduler.effects.tracing import open_tracing
from aiosched.scheduler.session.session import Session
print(json.dumps([open_tracing() is None, [name for name in sys.modules if name.startswith("opentelemetry")]]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert json.loads(done.stdout) == [True, []]


def test_an_sdk_that_was_imported_and_not_configured_is_none() -> None:
    assert open_tracing() is None
