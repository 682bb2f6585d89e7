"""OpenTelemetry's trace context, as the text of W3C (`traceparent`): from who asks for a run to its tasks.

Nothing is imported for it: without OpenTelemetry in this process there is no context, and no cost.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def current_traceparent() -> str | None:
    """The context of the span in which this is called; None without one."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    found = trace.get_current_span().get_span_context()
    if not found.is_valid:
        return None
    return f"00-{found.trace_id:032x}-{found.span_id:016x}-{int(found.trace_flags):02x}"


def remote_context(traceparent: str) -> Any:
    """The context of OpenTelemetry, which is installed, in which new spans are children of that one."""
    from opentelemetry import trace

    _, trace_id, span_id, flags = traceparent.split("-")
    parent = trace.SpanContext(int(trace_id, 16), int(span_id, 16), True, trace.TraceFlags(int(flags, 16)))
    return trace.set_span_in_context(trace.NonRecordingSpan(parent))


@contextmanager
def continued(traceparent: str | None) -> Iterator[None]:
    """Continue a trace in the block, if this process has OpenTelemetry."""
    context = sys.modules.get("opentelemetry.context")
    if traceparent is None or context is None:
        yield
        return
    token = context.attach(remote_context(traceparent))
    try:
        yield
    finally:
        context.detach(token)
