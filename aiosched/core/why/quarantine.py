"""The gate of a DAG in quarantine, for the DAG, its runs and its tasks.

Source: docs/why.md; docs/architecture.md, "Quarantine".
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aiosched.core.values.commands import command_line
from aiosched.core.values.instants import stamp
from aiosched.core.why.explanation import Explanation, Gate, Verdict, commands_of, seconds_since

_LONGEST_ERROR: Final = 300  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineFacts:
    """Why nothing of a DAG is decided: `place`, in words, failed with `error`, `failures` times in a row."""

    since: datetime
    retry_at: datetime
    failures: int
    place: str
    error: str


def quarantine_gates(
    dag_id: str, found: QuarantineFacts | None, now: datetime, *, has_slot: bool = False
) -> list[Gate]:
    """The gate of a DAG in quarantine; none if it is not. `has_slot`: of a task that is queued or running already."""
    if found is None:
        return []
    times = "" if found.failures == 1 else f", {found.failures} times in a row"
    again = "now" if found.retry_at <= now else f"at {stamp(found.retry_at)}"
    error = textwrap.shorten(found.error, _LONGEST_ERROR, placeholder=" …")
    detail = f"since {stamp(found.since)}: {found.place} failed ({error}){times}; the DAG is tried again {again}"
    if has_slot:
        return [Gate(name="quarantine", verdict=Verdict.OK, detail=f"it goes on, and its result waits: {detail}")]
    commands = (command_line("dags release", dag_id),)
    return [Gate(name="quarantine", verdict=Verdict.WAIT, detail=detail, opens_at=found.retry_at, commands=commands)]


def explain_quarantine(
    subject: str, state: str, dag_id: str, found: QuarantineFacts, now: datetime, cause: Exception
) -> Explanation:
    """What can be said of something in a DAG in quarantine if explaining it fails, too, with `cause`."""
    gates = tuple(quarantine_gates(dag_id, found, now))
    return Explanation(
        subject=subject,
        state=state,
        summary=f"its DAG is in quarantine {gates[0].detail}",
        gates=gates,
        at=now,
        since=found.since,
        waiting_seconds=seconds_since(found.since, now),
        earliest_start=found.retry_at,
        commands=commands_of(gates),
        notes=(f"nothing else can be said of it: {type(cause).__name__}: {cause}",),
    )
