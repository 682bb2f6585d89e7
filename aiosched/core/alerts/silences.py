"""Silences: what nothing is said about for a time. Alerts open and recover as ever; only their messages wait. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aiosched.core.alerts.rules import DagLabels, Labels

LEAST_SECONDS: Final = 60.0
MOST_SECONDS: Final = 30 * 86_400.0
LONGEST_REASON: Final = 1_000  # characters
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_NO_LABELS: Final = DagLabels()


@dataclass(frozen=True, slots=True)
class Silence:
    """Nothing is said before `ends_at` about one alert (a `subject` of a `rule`), a DAG, or the DAGs with a tag."""

    ends_at: datetime
    rule: int | None = None
    subject: str | None = None
    dag_id: str | None = None
    tag: str | None = None

    def covers_dag(self, dag_id: str, labels: DagLabels) -> bool:
        """Whether it is about this DAG."""
        return self.dag_id == dag_id or (self.tag is not None and self.tag in labels.tags)


def silent_until(
    silences: Collection[Silence], rule: int, subject: str, dag_ids: Collection[str], labels: Labels, now: datetime
) -> datetime | None:
    """Until when nothing is said about an alert; None: it is not silenced at `now`.

    One about several DAGs is silenced by silences of all of them: that of one DAG hides nothing about another.
    """
    active = [silence for silence in silences if silence.ends_at > now]
    ends = [one.ends_at for one in active if one.subject is not None and (one.rule, one.subject) == (rule, subject)]
    of_dags = [
        max(
            (one.ends_at for one in active if one.covers_dag(dag_id, labels.get(dag_id, _NO_LABELS))),
            default=None,
        )
        for dag_id in set(dag_ids)
    ]
    known = [end for end in of_dags if end is not None]
    if known and len(known) == len(of_dags):
        ends.append(min(known))
    return max(ends, default=None)


def problem_of_silence(seconds: float, reason: str) -> str | None:
    """What is wrong with a silence, and what to do; None if it is right."""
    if not LEAST_SECONDS <= seconds <= MOST_SECONDS:
        return "a silence lasts between one minute and 30 days: give another time"
    if not reason.strip():
        return "a silence needs a reason: others read it"
    if len(reason) > LONGEST_REASON or _CONTROL.search(reason):
        return f"a reason is one line of at most {LONGEST_REASON} characters: write it without line breaks"
    return None
