"""What the statements about the audit log do: the model has none, so they find nothing and leave nothing."""

from __future__ import annotations

from typing import Any

from aiosched.db.audit import entries, repeated, unsent
from aiosched.db.statements import conf_params
from tests.simulation.answers import Answer, answer, changed, handles
from tests.simulation.store import Transaction


@handles(entries.ADD)
async def _add(t: Transaction, *columns: Any) -> Answer:
    return changed("INSERT 0", len(columns[0]))


@handles(repeated.WRITE_DOWN)
async def _write_down(t: Transaction) -> Answer:
    return changed("INSERT 0", 0)


@handles(unsent.STOP)
async def _stop(t: Transaction) -> Answer:
    return changed("DELETE", 0)


@handles(conf_params.PARAMS)
async def _params(t: Transaction, dag_id: str) -> Answer:
    return answer("params", [])
