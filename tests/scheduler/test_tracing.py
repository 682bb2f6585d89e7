"""Traces: a span for each run and, in its trace, one for each attempt; nothing without an SDK."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import asyncpg
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Span, StatusCode

from aiosched import DAG, dag, enqueue, task
from aiosched.errors import Refused
from aiosched.scheduler import Scheduler
from aiosched.scheduler.effects.tracing import open_tracing
from aiosched.scheduler.session.session import Session


def place(span: Span) -> tuple[int, int]:
    return span.get_span_context().trace_id, span.get_span_context().span_id


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


async def test_a_run_continues_the_trace_of_whoever_asked_for_it_and_so_does_its_task(dsn: str) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("the application")

    @dag(schedule=None)
    def traced() -> None:
        @task
        async def waits() -> None:
            with tracer.start_as_current_span("query"):
                await asyncio.sleep(0)

        @task
        def plain(dag_run: Any = None) -> str | None:
            with tracer.start_as_current_span("call"):
                return dag_run.traceparent

        waits() >> plain()

    asked: dict[str, tuple[int, int]] = {}
    conn = await asyncpg.connect(dsn)
    try:
        async with Scheduler(dsn=dsn, dags=[traced()]) as scheduler:
            assert isinstance(scheduler.session, Session)
            scheduler.session.tracing = open_tracing(provider)
            with tracer.start_as_current_span("request") as span:
                asked["one"] = place(span)
                runs = [await scheduler.trigger("traced", run_id="one")]
            with tracer.start_as_current_span("order") as span:
                asked["two"] = place(span)
                number = await enqueue(conn, "traced", run_id="two")
            with tracer.start_as_current_span("batch") as span:
                asked["three"] = place(span)
                await scheduler.trigger_batch("traced", [{"run_id": "three"}])
            with tracer.start_as_current_span("other"):
                parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
                runs += [await scheduler.trigger("traced", run_id="said", traceparent=parent)]
            for name in ("try", "another"):
                with tracer.start_as_current_span(name):  # the same request, not two
                    same = await scheduler.trigger("traced", run_id="keyed", key="k")
            runs += [await scheduler.run_of(number), await scheduler.trigger("traced", run_id="alone")]
            await scheduler.wait_idle()
            assert await runs[1].result("plain") == parent
            assert await scheduler.xcom("traced", "alone", "plain") is None
    finally:
        await conn.close()

    spans = exporter.get_finished_spans()
    of_runs = {str((span.attributes or {})["aiosched.run_id"]): span for span in spans if span.name == "run traced"}
    for name, span in asked.items():
        found = of_runs[name].parent
        assert found is not None
        assert (found.trace_id, found.span_id) == span
    assert of_runs["said"].parent.span_id == 0xB7AD6B7169203331
    assert of_runs["alone"].parent is of_runs[same.run_id].parent is None
    inner = [span for span in spans if span.name in ("query", "call")]
    parents = [None if span.parent is None else span.parent.span_id for span in inner]
    assert sorted(map(str, parents)) == sorted(
        2 * ["None", "None", str(0xB7AD6B7169203331), *(str(span[1]) for span in asked.values())]
    )


async def test_what_is_no_trace_context_is_refused(dsn: str) -> None:
    async with Scheduler(dsn=dsn, dags=[sales()]) as scheduler:
        for wrong in ("", "00-abc", "00-" + 32 * "0" + "-b7ad6b7169203331-01"):
            with pytest.raises(Refused, match="traceparent"):
                await scheduler.trigger("sales", traceparent=wrong)


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
