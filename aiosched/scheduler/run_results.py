"""The values that the tasks of a run have pushed, as objects, for the application that asked for the run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from aiosched.config import XComSettings
from aiosched.core.values.messages import XComPairs, XComPlace
from aiosched.db.queries.run_results import read_pairs
from aiosched.db.server.engine import Database
from aiosched.errors import RemoteStorageError
from aiosched.remote.values import XComStore, remote_xcoms


class RunValues(NamedTuple):
    """What tasks pushed under one key, by task id: for a mapped task a list. `last`: the tasks that none follows."""

    by_task: dict[str, Any]
    last: Sequence[str]


async def read_values(
    db: Database,
    settings: XComSettings,
    run: int,
    task_id: str | None = None,
    key: str = "return_value",
    map_index: int | None = None,
) -> RunValues:
    """The values of one task (None: of all that pushed some) of the run with this key; of one `map_index`, or of all.

    Raises NotFound for a task that the run does not have, Refused if the values are too many for one answer,
    RemoteStorageError for one that cannot be read, AioschedError for one whose class cannot be imported here.
    """
    async with db.acquire() as conn:
        found = await read_pairs(conn, run, task_id, key)
    wanted = {each: [pair for pair in of if map_index in (None, pair[0])] for each, of in found.pairs.items()}
    store: XComStore | None = None
    if any(isinstance(place, XComPlace) for pairs in wanted.values() for _, place in pairs):
        if (remote := remote_xcoms(settings)) is None:
            raise RemoteStorageError("A value is in remote storage, but xcom.remote is not set here.")
        store = XComStore(remote)
    return RunValues(
        {each: await asyncio.to_thread(_value, of, store, map_index is None) for each, of in wanted.items() if of},
        found.last,
    )


def _value(pairs: XComPairs, store: XComStore | None, of_all: bool) -> Any:
    from aiosched.authoring.runtime.xcom_values import read_xcom  # a scheduler that has only files does without

    values = []
    for _, text in pairs:
        if isinstance(text, XComPlace):
            assert store is not None  # read_values has made it
            text = store.read(text)
        values.append(read_xcom(text))
    return values if of_all and pairs[0][0] >= 0 else values[0]
