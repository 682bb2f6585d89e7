"""Stores a plan: variables, connections and pools at once, DAGs by requests to their owners.

New DAGs are stored paused, together with their files, before their owner hears of them. It unpauses each one in the
step that stores where its schedule goes on; so nothing starts between the two. Every step is safe to repeat.
Does not live here: what is stored (planning.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from typing import Final
from uuid import NAMESPACE_URL, UUID, uuid5

import msgspec

from aiosched.core.requests.requests import Request, Unpause
from aiosched.core.requests.stored import encode
from aiosched.core.values.connections import ConnectionValue
from aiosched.core.values.ids import partition_of
from aiosched.db.crypto.keyring import Keyring
from aiosched.db.lists.dag_lists import list_dags
from aiosched.db.people.pools import list_pools, set_pool
from aiosched.db.people.secrets import SecretStore, VariableValue
from aiosched.db.queries.schedulers import list_schedulers
from aiosched.db.server.engine import Database
from aiosched.db.statements.inbox import find_request, notify, read_answer, send_request, wait_applied
from aiosched.db.statements.runs import set_paused
from aiosched.errors import Refused
from aiosched.migration.planning import (
    ImportedDag,
    ImportedVariable,
    MigrationPlan,
    MigrationStep,
    StepOutcome,
    StoredHere,
    StoredValue,
    preview,
    value_steps,
)
from aiosched.migration.rows import AirflowPool
from aiosched.parsing.result import ParsedFile
from aiosched.parsing.store import store_results

ANSWER_SECONDS: Final = 10.0  # how long a living scheduler is waited for
_MANY: Final = 1_000_000
_WRITES: Final = (StepOutcome.CREATED, StepOutcome.CHANGED)


async def stored_here(db: Database, keyring: Keyring, *, default_slots: int) -> StoredHere:
    """What the database has already. Secrets that no key decrypts count as different."""
    store = SecretStore(db, keyring)
    keys = [info.key for info in await store.list_variables(limit=_MANY)]
    conn_ids = [info.conn_id for info in await store.list_connections(limit=_MANY)]
    variables = await store.get_variables(keys) if keys else {}
    pools = await list_pools(db, limit=_MANY)
    return StoredHere(
        variables={key: (one.value, one.description) for key, one in variables.items()},
        connections=dict(await store.get_connections(conn_ids)) if conn_ids else {},
        pools={one.name: AirflowPool(one.name, one.slots, one.description, one.include_deferred) for one in pools},
        default_slots=default_slots,
    )


@dataclass(frozen=True, slots=True)
class Migration:
    """Applies plans to one database."""

    db: Database
    keyring: Keyring
    requested_by: str
    default_slots: int = 128
    overwrite: bool = False

    async def preview(self, plan: MigrationPlan) -> list[MigrationStep]:
        """What `apply` would do."""
        stored = await stored_here(self.db, self.keyring, default_slots=self.default_slots)
        return preview(plan, stored, overwrite=self.overwrite)

    async def apply(self, plan: MigrationPlan, files: Sequence[ParsedFile], *, now: datetime) -> list[MigrationStep]:
        """Store the plan and the DAGs of `files`. What fails about one row is a step with its reason."""
        stored = await stored_here(self.db, self.keyring, default_slots=self.default_slots)
        values = value_steps(plan, stored, overwrite=self.overwrite)
        steps = [await self._stored(step, new) for step, new in values]
        new = await self._store_files(files, now)
        is_alive = any(scheduler.alive for scheduler in await list_schedulers(self.db))
        steps += [await self._dag(dag, is_new=dag.dag_id in new, is_alive=is_alive) for dag in plan.dags]
        return [*steps, *plan.left]

    async def _stored(self, step: MigrationStep, new: StoredValue) -> MigrationStep:
        """Store a value if that is what the step does; the step, with the reason if it is refused."""
        if step.outcome not in _WRITES:
            return step
        store, by = SecretStore(self.db, self.keyring), self.requested_by
        try:
            match new:
                case ImportedVariable():
                    value = VariableValue(new.value, new.description)
                    await store.set_variables({new.key: value}, requested_by=by)
                case ConnectionValue():
                    await store.set_connections([new], requested_by=by)
                case AirflowPool():
                    await set_pool(
                        self.db, new.name, new.slots, include_deferred=new.include_deferred,
                        description=new.description, requested_by=by,
                    )  # fmt: skip
        except Refused as error:
            return replace(step, outcome=StepOutcome.LEFT, why=str(error))
        return step

    async def _store_files(self, files: Sequence[ParsedFile], now: datetime) -> set[str]:
        """Store the DAGs of the files; those that are new here, which are returned, are paused."""
        known = {row.dag_id for row in await list_dags(self.db, stale=True, limit=_MANY)}
        async with self.db.transaction() as conn:
            stored = await store_results(conn, files, now=now, paused_at_creation=True)
            new = {dag.dag_id for file in files for dag in file.dags} - known
            for dag_id in sorted(new):
                await set_paused(conn, dag_id, True)  # also one whose file says otherwise
        if stored.changed:
            await notify(self.db, "dags", {partition_of(dag_id) for dag_id in stored.changed})
        return new

    async def _dag(self, dag: ImportedDag, *, is_new: bool, is_alive: bool) -> MigrationStep:
        """Ask the owner of a DAG to go on after its last run, and to unpause it."""
        if dag.is_left:
            return MigrationStep("dag", dag.dag_id, StepOutcome.LEFT, dag.why)
        unpause = dag.unpause or (not dag.is_paused and (is_new or self.overwrite))
        if dag.after is not None:
            request: Request = msgspec.structs.replace(dag.after, unpause=unpause)
        elif unpause:
            request = Unpause()
        else:
            return MigrationStep("dag", dag.dag_id, StepOutcome.UNCHANGED, dag.why)
        try:
            outcome, unchanged = await self._ask(dag, request, is_alive=is_alive)
        except Refused as error:
            return MigrationStep("dag", dag.dag_id, StepOutcome.LEFT, "; ".join(filter(None, (str(error), dag.why))))
        done = "has not run on its schedule" if dag.after is None else f"goes on after {dag.after.source}"
        state = "unpaused" if unpause and unchanged is None else None
        return MigrationStep("dag", dag.dag_id, outcome, "; ".join(filter(None, (unchanged or done, state, dag.why))))

    async def _ask(self, dag: ImportedDag, request: Request, *, is_alive: bool) -> tuple[StepOutcome, str | None]:
        """Send a request, unless it has been sent and not refused; what came of it, and why nothing changed.

        Raises Refused with the owner's reason.
        """
        verb, args = encode(request)
        async with self.db.acquire() as conn:
            for repeat in count():
                name = _name_of(dag, repeat)
                known = await find_request(conn, name)
                if known is None:
                    break
                answer = await read_answer(conn, known)
                if answer is None:
                    return StepOutcome.UNCHANGED, "it waits for a scheduler (aiosched serve)"
                if answer.error is None:
                    return StepOutcome.UNCHANGED, answer.result.get("unchanged") or "done already"
            number = await send_request(
                conn, verb=verb, dag_id=dag.dag_id, args=args, requested_by=self.requested_by, idempotency_key=name
            )
        answer = await wait_applied(self.db, number, timeout=ANSWER_SECONDS) if is_alive else None
        if answer is None:
            return StepOutcome.SENT, None
        if answer.error is not None:
            raise Refused(str(answer.error))
        unchanged = answer.result.get("unchanged")
        return (StepOutcome.CHANGED, None) if unchanged is None or dag.unpause else (StepOutcome.UNCHANGED, unchanged)


def _name_of(dag: ImportedDag, repeat: int) -> UUID:
    """The key of a request, the same whenever this is repeated: a DAG goes on after one run once."""
    after = "" if dag.after is None else dag.after.logical_date.isoformat()
    return uuid5(NAMESPACE_URL, f"aiosched:migrate:{dag.dag_id}:{after}:{dag.unpause}:{repeat}")
