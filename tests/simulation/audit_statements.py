"""What the statements about the audit log do: the model has none, so they find nothing and leave nothing."""

from __future__ import annotations

from aiosched.db.audit import repeated, unsent
from tests.simulation.answers import Answer, changed, handles
from tests.simulation.store import Transaction


@handles(repeated.WRITE_DOWN)
async def _write_down(t: Transaction) -> Answer:
    return changed("INSERT 0", 0)


@handles(unsent.STOP)
async def _stop(t: Transaction) -> Answer:
    return changed("DELETE", 0)
