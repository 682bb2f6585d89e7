"""Services about assets for running tasks.

    check_assets              {names, uris}                -> {uri: name}, or refused
    asset_events              {asset | uri | alias, limit} -> [event], oldest first
    triggering_asset_events   {}                           -> [event], oldest first
    asset_check               CheckReport                  -> {is_stored}

An event is {name, uri, timestamp, extra, alias, dag_id, run_id, task_id, map_index, partition_key}.
Source: the semantics reference, sections 15.1 and 15.4.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable
from typing import Any

from aiosched.core.values.asset_checks import read_report
from aiosched.db.assets.assets import inactive_assets
from aiosched.db.assets.checks import record_check
from aiosched.db.queries import asset_queries
from aiosched.db.server.engine import Database
from aiosched.errors import Refused
from aiosched.scheduler.services.service_calls import ServiceCall

logger: logging.Logger = logging.getLogger(__name__)


async def check_assets(db: Database, call: ServiceCall) -> dict[str, str]:
    """Refuse a task that names an inactive asset as inlet or outlet: it fails before it executes (15.1)."""
    names, uris = call.args["names"], call.args["uris"]
    async with db.acquire() as conn:
        found = await asset_queries.names_at(conn, uris) if uris else {}
        missing = [*await inactive_assets(conn, names), *sorted(set(uris) - found.keys())]
    if missing:
        listed = ", ".join(map(repr, missing))
        raise Refused(
            f"No DAG mentions the asset {listed} any more (or another one has taken its place), so its events "
            "would have no effect. Clear the task onto the newest version of its DAG, or bring the asset back."
        )
    return found


async def asset_events(db: Database, call: ServiceCall) -> list[dict[str, Any]]:
    """Events of one asset, or of those that an alias resolved to."""
    args = call.args
    asked = {key: args[key] for key in ("asset", "uri", "alias") if args.get(key)}
    if len(asked) != 1:
        raise Refused(f"Ask for the events of one asset, URI or alias, not of {asked!r}.")
    asked = {"name" if key == "asset" else key: value for key, value in asked.items()}
    return _shown(await asset_queries.events_of(db, **asked, limit=int(args["limit"])))


async def triggering_asset_events(db: Database, call: ServiceCall) -> list[dict[str, Any]]:
    """The events that made the run of the task; of very many the newest."""
    events, are_cut = await asset_queries.events_of_run(db, call.run)
    if are_cut:
        text = "run %d was made by very many events: its tasks see only the newest %d events"
        logger.warning(text, call.run, len(events))
    return _shown(events)


async def asset_check(db: Database, call: ServiceCall) -> dict[str, bool]:
    """Store what a check says, once for an attempt; not what has ended, or is no check by the DAG's file."""
    report = read_report(call.args)
    async with db.acquire() as conn:
        return {"is_stored": await record_check(conn, call.run, report)}


def _shown(events: Iterable[asset_queries.EventRow]) -> list[dict[str, Any]]:
    return [dataclasses.asdict(event) for event in events]
