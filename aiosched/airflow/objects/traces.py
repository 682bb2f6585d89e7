"""Spans that DAG code of Airflow 3 makes within a task's. They go nowhere, as in an Airflow without OpenTelemetry."""

from __future__ import annotations

from typing import Any


class Span:
    """A span; also the block that it covers."""

    def __enter__(self) -> Span:
        return self

    def __exit__(self, *_: object) -> None: ...

    def __call__(self, function: Any) -> Any:
        """As a decorator: the function as it is."""
        return function

    def _nothing(self, *_: Any, **__: Any) -> None: ...

    set_attribute = set_attributes = set_status = add_event = add_link = update_name = record_exception = end = _nothing

    def is_recording(self) -> bool:
        """No."""
        return False


class Trace:
    """Airflow's tracer. Every call is accepted and records nothing."""

    @staticmethod
    def start_span(*_: Any, **__: Any) -> Span:
        """A span."""
        return Span()

    start_root_span = start_child_span = start_span_from_dagrun = start_span_from_taskinstance = start_span
    use_span = get_current_span = start_span

    @staticmethod
    def inject() -> dict[str, str]:
        """What another process continues the trace with: nothing."""
        return {}

    @staticmethod
    def extract(carrier: object) -> None:
        """The context of what `inject` gave: none."""


def get_otel_tracer_for_task(cls: object = Trace) -> type[Trace]:
    """The tracer of a running task."""
    return Trace
