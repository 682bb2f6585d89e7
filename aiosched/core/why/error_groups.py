"""Which failures have the same error: texts that differ only in numbers and ids are one group."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

# Hexadecimal ids (with at least one digit) and numbers.
_VARIABLE: Final = re.compile(r"\b(?=[a-f-]{0,64}\d)[0-9a-f]{8}[0-9a-f-]*\b|\d+(?:\.\d+)*", re.IGNORECASE)
_LONGEST: Final = 200
_LEAST: Final = 6  # letters of a part that a list can be searched by


@dataclass(frozen=True, slots=True)
class FailedInstance:
    """A failed task instance; without a reason nobody knows why."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Failures with the same error: `newest` is the first of them, `dags` are sorted."""

    number: int
    newest: FailedInstance
    dags: Sequence[str]

    @property
    def search(self) -> str:
        """The longest part of the text that all of the group have."""
        return searchable(self.newest.reason or "")


def searchable(reason: str) -> str:
    """The longest part of a text that is no number and no id; the text itself if all parts are short."""
    longest = max(_VARIABLE.split(reason), key=len).strip()
    return longest if len(longest) >= _LEAST else reason


def group_errors(failures: Iterable[FailedInstance], *, most: int) -> list[ErrorGroup]:
    """The largest groups of `failures`, which come newest first; of equal ones the newer goes first."""
    groups: dict[str, list[FailedInstance]] = {}
    for failure in failures:
        groups.setdefault(_VARIABLE.sub("#", failure.reason or "")[:_LONGEST], []).append(failure)
    ordered = sorted(groups.values(), key=len, reverse=True)[:most]
    return [ErrorGroup(len(group), group[0], sorted({each.dag_id for each in group})) for group in ordered]
