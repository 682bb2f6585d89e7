"""Somebody who has an eye on DAGs whose runs wait for each other, and does what people do then.

Runs with a failed task are cleared, since others may wait for ever for it. And what would keep a DAG paused for ever,
because it was refused while the DAG was in quarantine, is asked for again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from tests.simulation.shapes import looks_back
from tests.simulation.store import Row
from tests.simulation.workload import Plan, Request

EVERY: Final = 7.0  # seconds between two looks
_ASKED_AGAIN: Final = ("unpause", "backfill_resume")
_REFUSALS: Final = ("is in quarantine", "hit a bug")


class Caretaker:
    """Looks at the rows; `ask` hears what is to be done."""

    def __init__(self, plan: Plan, tables: Mapping[str, Mapping[Any, Row]], ask: Callable[[Request], None]) -> None:
        self._dags = [spec.dag_id for spec in plan.specs if looks_back(spec.tasks)]
        self._tables, self._ask = tables, ask
        self._answered: set[int] = set()  # refused requests that were repeated

    def look(self, now: float) -> None:
        """Call it from time to time."""
        for dag_id in self._dags:
            runs = {key: run for key, run in self._tables["dag_run"].items() if run["dag_id"] == dag_id}
            for run in self._failed(runs):
                self._ask(Request(now, "clear", dag_id, {"run_ids": [run["run_id"]]}))
        for number, request in list(self._tables["request"].items()):
            if request["state"] != "refused" or request["verb"] not in _ASKED_AGAIN or number in self._answered:
                continue
            self._answered.add(number)
            if any(refusal in request["result"] for refusal in _REFUSALS):
                self._ask(Request(now, request["verb"], request["dag_id"], json.loads(request["args"])))

    def _states(self, runs: Mapping[int, Row]) -> Iterator[tuple[Any, str | None]]:
        return ((key, row["state"]) for key, row in self._tables["task_instance"].items() if key[0] in runs)

    def _failed(self, runs: Mapping[int, Row]) -> list[Row]:
        failed = {key[0] for key, state in self._states(runs) if state in ("failed", "upstream_failed")}
        return [runs[key] for key in sorted(failed) if runs[key]["state"] == "failed"]
