"""What the statements on the runs before a run do, on the modelled rows."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from aiosched.db.statements import rehydration as rehydrations
from tests.simulation.answers import Answer, answer, handles
from tests.simulation.store import Row, Transaction


@handles(rehydrations.RUNS_BEFORE)
async def _runs_before(
    t: Transaction, runs: list[int], dag_ids: list[str], dates: list[datetime], without_manual: list[bool]
) -> Answer:
    found = []
    for run, dag_id, date, automated in zip(runs, dag_ids, dates, without_manual, strict=True):
        earlier = [row for row in _before(t, dag_id, date) if not (automated and row["run_type"] == "manual")]
        if earlier:
            before = max(earlier, key=lambda row: row["logical_date"])
            is_incomplete = before["partition"] < 0
            found.append([run, before["id"], before["version_id"], before["logical_date"], is_incomplete])
    return answer("run_id id version_id logical_date is_incomplete", found)


def _before(t: Transaction, dag_id: str, date: datetime) -> list[Row]:
    return [
        row
        for _, row in t.rows("dag_run")
        if row["dag_id"] == dag_id and row["logical_date"] is not None and row["logical_date"] < date
    ]


@handles(rehydrations.LOAD_STATES)
async def _load_states(t: Transaction, runs: list[int]) -> Answer:
    found = [[*key[:2], row["state"]] for key, row in t.rows("task_instance") if key[0] in runs]
    return answer("run_id task_index state", found)


@handles(rehydrations.VERSIONS_BEFORE)
async def _versions_before(t: Transaction, dag_id: str, date: datetime) -> Answer:
    versions = dict.fromkeys(row["version_id"] for row in _before(t, dag_id, date))
    return answer("version_id", [[version] for version in versions])


@handles(rehydrations.SEEN_BEFORE)
async def _seen_before(t: Transaction, dag_id: str, date: datetime, versions: Any, tasks: Any) -> Answer:
    earlier = _before(t, dag_id, date)
    seen = {(row["version_id"], key[1]) for row in earlier for key, _ in t.rows("task_instance") if key[0] == row["id"]}
    unknown = {row["version_id"] for row in earlier if row["partition"] < 0}
    wanted = zip(versions, tasks, strict=True)
    found = [(version, task) for version, task in wanted if version in unknown or (version, task) in seen]
    return answer("version_id task_index", found)
