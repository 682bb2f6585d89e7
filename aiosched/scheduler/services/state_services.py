"""Services for the state stores of running tasks.

    task_state   {do: get, key}                          -> {found, value}
                 {do: set, key, value, retention}        -> {}
                 {do: delete, key} or {do: clear}        -> {}, also if there is nothing
                 each with {task_id, map_index}; to clear, map_index null means all instances of the task
    asset_state  the same with {asset}, its name, or {uri}

`retention` is a number of seconds, "never", or null for the setting `scheduler.state_retention_days` (tasks) and never
(assets). The values of a task go with their run in any case.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from aiosched.core.values.json_bounds import find_problem
from aiosched.db.people import state_stores as stores
from aiosched.db.queries.asset_queries import names_at
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.errors import NotFound, Refused
from aiosched.scheduler.services.service_calls import ServiceCall
from aiosched.scheduler.services.task_services import Service

_MOST_CHARACTERS: Final = 1_000_000  # of a value, as JSON
_LONGEST_KEY: Final = 500  # characters


def state_services(*, retention_days: float) -> Mapping[str, Service]:
    """The services `task_state` and `asset_state`. `retention_days`: of tasks' values by default, 0: as their run."""

    async def task_state(db: Database, call: ServiceCall) -> dict[str, Any]:
        args = call.args
        place = stores.StatePlace(call.run, str(args["task_id"]), args["map_index"])
        key = _key_of(args)
        async with db.acquire() as conn:
            match args["do"]:
                case "get":
                    return _found(await stores.get_task_state(conn, place, str(key)))
                case "set":
                    seconds = _seconds(args, default=retention_days * 86_400 or None)
                    await stores.set_task_state(conn, place, str(key), _value_of(args), seconds=seconds)
                case _:
                    await stores.delete_task_state(conn, place, key)
        return {}

    async def asset_state(db: Database, call: ServiceCall) -> dict[str, Any]:
        args = call.args
        key = _key_of(args)
        async with db.acquire() as conn:
            name = await _asset(conn, args)
            match args["do"]:
                case "get":
                    return _found(await stores.get_asset_state(conn, name, str(key)))
                case "set":
                    seconds = _seconds(args, default=None)
                    await stores.set_asset_state(conn, name, str(key), _value_of(args), seconds=seconds)
                case _:
                    await stores.delete_asset_state(conn, name, key)
        return {}

    return {"task_state": task_state, "asset_state": asset_state}


async def _asset(conn: DatabaseConnection, args: Mapping[str, Any]) -> str:
    if args.get("asset"):
        return str(args["asset"])
    uri = str(args["uri"])
    names = await names_at(conn, [uri])
    if uri not in names:
        raise NotFound(f"No DAG mentions an asset with the URI {uri!r}, so it has no state.")
    return names[uri]


def _key_of(args: Mapping[str, Any]) -> str | None:
    """The key; None to clear all of them."""
    if args["do"] == "clear":
        return None
    key = args["key"]
    if not isinstance(key, str) or not 0 < len(key) <= _LONGEST_KEY or "\0" in key:
        raise Refused(f"The key {key!r:.80} of a state store is wrong: give text of 1 to {_LONGEST_KEY} characters.")
    return key


def _value_of(args: Mapping[str, Any]) -> str:
    problem = find_problem(args["value"], "value")
    if problem is not None:
        raise Refused(f"The state {args['key']!r} cannot be stored: {problem}.")
    text = msgspec.json.encode(args["value"]).decode()
    if len(text) > _MOST_CHARACTERS:
        raise Refused(
            f"The state {args['key']!r} has {len(text):,} characters of JSON, allowed are {_MOST_CHARACTERS:,}: store "
            "the data elsewhere, and keep a reference."
        )
    return text


def _seconds(args: Mapping[str, Any], *, default: float | None) -> float | None:
    retention = args.get("retention")
    return default if retention is None else None if retention == "never" else float(retention)


def _found(text: str | None) -> dict[str, Any]:
    return {"found": text is not None, "value": None if text is None else msgspec.json.decode(text)}
