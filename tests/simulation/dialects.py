"""Machines that run a newer version: what they write has fields and outcomes that the others do not know.

Their code is the same. Their reports are translated on the way to the database, and back on the way to a machine that
is newer, too. Source: decision 31.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from aiosched.db.statements import reports
from tests.simulation.answers import Answer, answer

KNOWN, UNKNOWN = "success", "finished"  # an outcome, as the older and as the newer version writes it
NOVELTY: Final = {"novelty": [1, {"a": None}]}  # a field of a newer version
_OUTCOME, _BODY = map(reports.NEW_REPORT.index, ("outcome", "body"))  # arguments of INSERT_REPORTS


class Dialects:
    """`is_newer` tells of a node whether it runs the newer version."""

    def __init__(self, is_newer: Callable[[int], bool], seen: Counter[str]) -> None:
        self._is_newer, self._seen = is_newer, seen

    def sent(self, node: int, text: str, args: Sequence[Any]) -> Sequence[Any]:
        """The arguments of a statement as they arrive."""
        if text != reports.INSERT_REPORTS or not self._is_newer(node):
            return args
        outcomes, bodies = list(args[_OUTCOME]), list(args[_BODY])
        for place, body in enumerate(bodies):
            report = msgspec.json.decode(body) | NOVELTY
            if outcomes[place] == KNOWN:
                self._seen["reports in another version's words"] += 1
                report["outcome"] = outcomes[place] = UNKNOWN
            bodies[place] = msgspec.json.encode(report).decode()
        return (*args[:_OUTCOME], outcomes, bodies, *args[_BODY + 1 :])

    def heard(self, node: int, text: str, said: Answer) -> Answer:
        """The answer of a statement as its sender understands it."""
        if text != reports.READ_REPORTS or not said.rows:
            return said
        unknown = sum(row["outcome"] == UNKNOWN for row in said.rows)
        if not self._is_newer(node):
            self._seen["reports that a machine could not read"] += unknown
            return said
        names = said.rows[0].names
        return Answer(
            answer(" ".join(names), [_known(dict(zip(names, row, strict=True))) for row in said.rows]).rows, said.tag
        )


def _known(row: dict[str, Any]) -> list[Any]:
    if row["outcome"] == UNKNOWN:
        report = msgspec.json.decode(row["body"]) | {"outcome": KNOWN}
        row |= {"outcome": KNOWN, "body": msgspec.json.encode(report).decode()}
    return list(row.values())
