"""State stores of running tasks: small values that outlive a try, and values about assets that outlive runs.

    context["task_state_store"].set("job_id", job)               for later tries of this task instance
    context["asset_state_store"][orders].get("watermark", 0)     for all tasks that have the asset as inlet or outlet

Values are what JSON holds, except None; for instants store `isoformat()`. `get`, `set`, `delete` and `clear` are for
plain functions, `aget`, `aset`, `adelete` and `aclear` for coroutines. The stores are in PostgreSQL, and `dag.test()`
and `World` keep them in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

from aiosched.authoring.assets.assets import Asset, AssetAlias, AssetLink, outlet_of
from aiosched.authoring.runtime.services import acall, call
from aiosched.authoring.runtime.xcom_values import data_parts, read_data

NEVER_EXPIRE: Final = timedelta.max  # as `retention`: the value stays until it is deleted, or goes with its run


class StateStore:
    """One store: a mapping from keys to JSON values."""

    def __init__(self, service: str, place: Mapping[str, Any]) -> None:
        self._service, self._place = service, dict(place)

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or `default` if there is none, or if it has expired."""
        return _value(call(self._service, **self._place, do="get", key=key), default)

    async def aget(self, key: str, default: Any = None) -> Any:
        """As `get`, for coroutines."""
        return _value(await acall(self._service, **self._place, do="get", key=key), default)

    def set(self, key: str, value: Any, *, retention: timedelta | None = None) -> None:
        """Store a value in place of an earlier one. Raises ValueError for None, TypeError for what JSON cannot hold.

        It expires after `retention`; None: the setting `scheduler.state_retention_days` (for assets: never).
        """
        call(self._service, **self._place, do="set", key=key, **_stored(value, retention))

    async def aset(self, key: str, value: Any, *, retention: timedelta | None = None) -> None:
        """As `set`, for coroutines."""
        await acall(self._service, **self._place, do="set", key=key, **_stored(value, retention))

    def delete(self, key: str) -> None:
        """Delete a value, if there is one."""
        call(self._service, **self._place, do="delete", key=key)

    async def adelete(self, key: str) -> None:
        """As `delete`, for coroutines."""
        await acall(self._service, **self._place, do="delete", key=key)

    def clear(self) -> None:
        """Delete all values of the store."""
        call(self._service, **self._place, do="clear")

    async def aclear(self) -> None:
        """As `clear`, for coroutines."""
        await acall(self._service, **self._place, do="clear")


class TaskStateStore(StateStore):
    """The store of a task instance in its run: all its tries share it, and it goes with the run."""

    def __init__(self, task_id: str, map_index: int) -> None:
        super().__init__("task_state", {"task_id": task_id, "map_index": map_index})

    def clear(self, all_map_indices: bool = False) -> None:
        """Delete all values, with `all_map_indices` those of all instances of the task."""
        call(self._service, **self._reach(all_map_indices), do="clear")

    async def aclear(self, all_map_indices: bool = False) -> None:
        """As `clear`, for coroutines."""
        await acall(self._service, **self._reach(all_map_indices), do="clear")

    def _reach(self, all_map_indices: bool) -> dict[str, Any]:
        return self._place | ({"map_index": None} if all_map_indices else {})

    def __repr__(self) -> str:
        return f"<TaskStateStore of {self._place['task_id']}>"


class AssetStateStores:
    """The stores of a task's inlets and outlets, by asset; with one asset its methods are those of the store."""

    def __init__(self, inlets: Iterable[Any], outlets: Iterable[Any]) -> None:
        self._stores: dict[tuple[str, str], StateStore] = {}
        for value in (*inlets, *outlets):
            if (place := _place_of(value)) is not None:
                self._stores[place] = StateStore("asset_state", dict([place]))

    def __getitem__(self, asset: Asset | AssetLink | str) -> StateStore:
        place = _place_of(asset)
        if place is None or place not in self._stores:
            raise KeyError(f"{asset!r} is neither an inlet nor an outlet of this task: name it among its inlets.")
        return self._stores[place]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if len(self._stores) != 1:
            raise ValueError(
                f"This task has {len(self._stores)} assets as inlets and outlets: write "
                f'context["asset_state_store"][asset].{name}(…).'
            )
        (only,) = self._stores.values()
        return getattr(only, name)

    def __repr__(self) -> str:
        return f"<AssetStateStores of {', '.join(name for _, name in self._stores) or 'no assets'}>"


def _place_of(value: object) -> tuple[str, str] | None:
    """How the service finds an asset: by its name or its URI; None for an alias, which is no asset by itself."""
    found = outlet_of(value)
    if found is None or isinstance(found, AssetAlias):
        return None
    return ("asset", found.name) if found.name else ("uri", str(found.uri))


def _stored(value: Any, retention: timedelta | None) -> dict[str, Any]:
    if value is None:
        raise ValueError("A state store holds no None: delete the key instead.")
    if retention is None or retention == NEVER_EXPIRE:
        return {"value": data_parts(value), "retention": None if retention is None else "never"}
    if retention <= timedelta(0):
        raise ValueError(f"retention={retention!r} is not above zero: give a longer time, or NEVER_EXPIRE.")
    return {"value": data_parts(value), "retention": retention.total_seconds()}


def _value(answer: Mapping[str, Any], default: Any) -> Any:
    return read_data(answer["value"]) if answer["found"] else default
