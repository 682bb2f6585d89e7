"""The assets of an attempt: checked before it executes, touched after it succeeded.

Source: the semantics reference, section 15.1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aiosched.authoring.assets.assets import Asset, AssetAlias, AssetLink, Outlet, outlet_of
from aiosched.authoring.runtime.xcom_values import write_data
from aiosched.core.values.messages import AssetTouch, RunInfo, TaskServices
from aiosched.executors.attempt.results import encode_xcom

if TYPE_CHECKING:
    from aiosched.authoring.assets.asset_events import OutletEvents
    from aiosched.authoring.tasks.operator import BaseOperator

UriNames = Mapping[str, str]  # the names of the assets at these URIs


async def check_assets(task: BaseOperator, services: TaskServices, run: int) -> UriNames:
    """Check that the task's inlets and outlets are active; returns the names of those known by URI.

    Raises Refused with the names of inactive ones.
    """
    names, uris = set(), set()
    for one in map(outlet_of, (*task.inlets, *task.outlets)):
        if isinstance(one, AssetLink) and one.uri:
            uris.add(one.uri)
        elif isinstance(one, Asset | AssetLink):
            names.add(one.name)
    if not names and not uris:
        return {}
    answer = await services.call(run, "check_assets", json.dumps({"names": sorted(names), "uris": sorted(uris)}))
    found: dict[str, str] = json.loads(answer)
    return found


def touches(events: OutletEvents, names: UriNames, run: RunInfo, *, limit: int) -> tuple[AssetTouch, ...]:
    """The asset events of a success: one for each outlet, or those that the task added.

    They are about the partition of the run, unless the task has named others (37.1).

    Raises UnusableResult for an extra that is not JSON or exceeds `limit` bytes.
    """
    return tuple(
        _touch(outlet, extra, names, event.outlet, run, key, limit)
        for event in events.values()
        for outlet, extra in event.events()
        for key in (event.partition_keys or [run.partition_key])
    )


def _touch(
    outlet: Outlet, extra: dict[str, Any], names: UriNames, declared: Outlet, run: RunInfo, key: str | None, limit: int
) -> AssetTouch:
    uri = "" if isinstance(outlet, AssetAlias) else outlet.uri
    name = outlet.name or names.get(uri, uri)
    return AssetTouch(
        name=name,
        uri=uri or name,
        extra=encode_xcom(f"extra of asset {name}", extra, limit, write=write_data) if extra else "{}",
        alias=declared.name if isinstance(declared, AssetAlias) else None,
        partition_key=key,
        partition_date=run.partition_date if key == run.partition_key else None,
    )
