"""Asset events in the context of a task: those it creates, those of its inlets, those that triggered its run.

    outlet_events[orders].extra = {"rows": 12}          one event with this extra
    outlet_events[orders].add(extra={"part": 1})        one event for each call
    outlet_events[alias].add(Asset("orders/2026"))      an event of an asset that the alias stands for
    outlet_events[orders].add_partitions(["us", "eu"])  one event for each of these partitions
    yield Metadata(orders, {"rows": 12})                as the first form, from a generator function

    inlet_events[orders][-1].extra                      events of an inlet, oldest first
    triggering_asset_events[orders]                     the events that triggered this run

The last two are fetched from the scheduler on first use. A coroutine fetches them with `await
inlet_events.load(orders)` and `await triggering_asset_events.load()`; when a coroutine function has the parameter
`triggering_asset_events`, they are fetched before it is called.

Source: the semantics reference, sections 15.1 and 15.4.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from aiosched.authoring.assets.assets import Asset, AssetAlias, AssetLink, Outlet, outlet_of
from aiosched.authoring.runtime.services import acall, call
from aiosched.authoring.runtime.xcom_values import read_data
from aiosched.core.timetables.key_formats import check_key
from aiosched.errors import AioschedError

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context

EVENTS_READ: Final = 1000  # newest events of an asset that a task can see


@dataclass(frozen=True)
class AssetEvent:
    """One event of an asset. `timestamp` is in UTC; the source is None for an event that a user created."""

    asset: Asset
    timestamp: datetime
    extra: dict[str, Any]
    source_dag_id: str | None = None
    source_run_id: str | None = None
    source_task_id: str | None = None
    source_map_index: int | None = None
    alias: AssetAlias | None = None
    partition_key: str | None = None

    @property
    def uri(self) -> str:
        return self.asset.uri

    @property
    def dataset(self) -> Asset:
        """The asset, by the name that Airflow had for it before version 3."""
        return self.asset


@dataclass
class Metadata:
    """Yielded by a generator function: an extra for one of its outlets. With `alias`, an asset to add to that alias."""

    asset: Asset | AssetLink | str
    extra: dict[str, Any] = field(default_factory=dict)
    alias: AssetAlias | str | None = None


# -- events of outlets -----------------------------------------------------------------------------


@dataclass
class OutletEvent:
    """The events that a task creates for one outlet."""

    outlet: Outlet
    extra: dict[str, Any] = field(default_factory=dict)
    added: list[tuple[Outlet, dict[str, Any]]] = field(default_factory=list)
    partition_keys: dict[str, None] = field(default_factory=dict)  # in order, each once

    def add(self, asset: Asset | str | None = None, extra: Mapping[str, Any] | None = None) -> None:
        """Add an event: of the outlet itself or, for an alias, of `asset`."""
        if isinstance(self.outlet, AssetAlias):
            target = outlet_of(asset)
            if not isinstance(target, Asset):
                raise AioschedError(f"{self.outlet!r} is an alias, not an asset: give one, add(Asset('…')).")
        else:
            if asset is not None and _find([self.outlet], asset) is None:
                raise AioschedError(f"{asset!r} is not {self.outlet!r}: only an alias leads to other assets.")
            target = self.outlet
        self.added.append((target, dict(extra or {})))

    def add_partitions(self, keys: str | Iterable[str]) -> None:
        """The events are about these partitions, one event for each; without them, about the run's own partition.

        A key is printable text of 1 to 250 characters. Raises AioschedError for any other, and for an alias.
        """
        if isinstance(self.outlet, AssetAlias):
            raise AioschedError(f"{self.outlet!r} is an alias, which has no partitions: name them for an asset.")
        for key in (keys,) if isinstance(keys, str) else tuple(keys):
            try:
                self.partition_keys[check_key(key)] = None
            except (ValueError, AttributeError, TypeError) as error:
                raise AioschedError(
                    f"{key!r:.80} is not a partition key: give printable text of 1 to 250 characters."
                ) from error

    def events(self) -> Iterator[tuple[Outlet, dict[str, Any]]]:
        """The events to create when the task succeeds: outlets and extras."""
        if isinstance(self.outlet, AssetAlias) or self.added:
            yield from self.added
        else:
            yield self.outlet, self.extra


class OutletEvents(Mapping[Outlet, OutletEvent]):
    """`outlet_events`: an OutletEvent for each outlet of the task."""

    def __init__(self, outlets: Iterable[object]) -> None:
        found = (outlet for value in outlets if (outlet := outlet_of(value)) is not None)
        self._events = {outlet: OutletEvent(outlet) for outlet in found}

    def __getitem__(self, outlet: Outlet | str) -> OutletEvent:
        key = _find(self._events, outlet)
        if key is not None:
            return self._events[key]
        known = ", ".join(map(repr, self._events)) or "none"
        raise KeyError(f"{outlet!r} is not an outlet of this task; it has {known}. Name it in outlets=[…].")

    def __iter__(self) -> Iterator[Outlet]:
        return iter(self._events)

    def __len__(self) -> int:
        return len(self._events)

    def note(self, metadata: Metadata) -> None:
        """Add what a generator function yielded."""
        if metadata.alias is None:
            self[metadata.asset].extra.update(metadata.extra)
        else:
            alias = AssetAlias(metadata.alias) if isinstance(metadata.alias, str) else metadata.alias
            asset = outlet_of(metadata.asset)
            self[alias].add(asset if isinstance(asset, Asset) else None, metadata.extra)


def run_generator(generator: Generator[Any, Any, Any], context: Context) -> Any:
    """Run a generator to its end, add each Metadata that it yields; its return value."""
    events: OutletEvents = context["outlet_events"]
    while True:
        try:
            yielded = next(generator)
        except StopIteration as end:
            return end.value
        if not isinstance(yielded, Metadata):
            generator.close()
            raise AioschedError(
                f"A task yielded {yielded!r:.80}: only Metadata(asset, …) may be yielded; return the value."
            )
        events.note(yielded)


# -- events of inlets ------------------------------------------------------------------------------


class InletEvents(Mapping[Outlet, "Sequence[AssetEvent]"]):
    """`inlet_events`: the newest events of each inlet of the task, at most 1,000, oldest first."""

    def __init__(self, inlets: Iterable[object]) -> None:
        self._inlets = [inlet for value in inlets if (inlet := outlet_of(value)) is not None]
        self._loaded: dict[Outlet, list[AssetEvent]] = {}

    def __getitem__(self, inlet: Outlet | str) -> Sequence[AssetEvent]:
        key = self._key(inlet)
        if key not in self._loaded:
            self._loaded[key] = _events(call("asset_events", **_query(key)))
        return self._loaded[key]

    async def load(self, inlet: Outlet | str) -> Sequence[AssetEvent]:
        """As `inlet_events[inlet]`, for coroutines."""
        key = self._key(inlet)
        if key not in self._loaded:
            self._loaded[key] = _events(await acall("asset_events", **_query(key)))
        return self._loaded[key]

    def __iter__(self) -> Iterator[Outlet]:
        return iter(self._inlets)

    def __len__(self) -> int:
        return len(self._inlets)

    def _key(self, inlet: Outlet | str) -> Outlet:
        key = _find(self._inlets, inlet)
        if key is None:
            known = ", ".join(map(repr, self._inlets)) or "none"
            raise KeyError(f"{inlet!r} is not an inlet of this task; it has {known}. Name it in inlets=[…].")
        return key


class TriggeringAssetEvents(Mapping[Asset, Sequence[AssetEvent]]):
    """`triggering_asset_events`: by asset, the events that triggered this run, oldest first. Empty for other runs."""

    def __init__(self, *, is_asset_run: bool) -> None:
        self._loaded: dict[Asset, list[AssetEvent]] | None = None if is_asset_run else {}

    async def load(self) -> TriggeringAssetEvents:
        """Fetch them from a coroutine."""
        if self._loaded is None:
            self._loaded = _by_asset(_events(await acall("triggering_asset_events")))
        return self

    def _all(self) -> dict[Asset, list[AssetEvent]]:
        if self._loaded is None:
            self._loaded = _by_asset(_events(call("triggering_asset_events")))
        return self._loaded

    def __getitem__(self, asset: Asset | str) -> Sequence[AssetEvent]:
        key = outlet_of(asset)
        if not isinstance(key, Asset):
            raise KeyError(asset)
        return self._all()[key]

    def __iter__(self) -> Iterator[Asset]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


def _find(known: Iterable[Outlet], wanted: Outlet | str) -> Outlet | None:
    """The member of `known` that `wanted` means. An asset matches a link to it, and the other way round."""
    key = outlet_of(wanted)
    if key is None or key in (all_known := list(known)):
        return key
    if isinstance(key, AssetAlias):
        return None
    names = {text for text in (key.name, key.uri) if text}
    others = (one for one in all_known if not isinstance(one, AssetAlias))
    return next((one for one in others if one.name in names or (one.uri and one.uri in names)), None)


def _query(inlet: Outlet) -> dict[str, Any]:
    if isinstance(inlet, AssetAlias):
        return {"alias": inlet.name, "limit": EVENTS_READ}
    if isinstance(inlet, AssetLink) and inlet.uri:
        return {"uri": inlet.uri, "limit": EVENTS_READ}
    return {"asset": inlet.name, "limit": EVENTS_READ}


def _events(answer: Iterable[Mapping[str, Any]]) -> list[AssetEvent]:
    return [
        AssetEvent(
            asset=Asset(one["name"], one["uri"]),
            timestamp=datetime.fromisoformat(one["timestamp"]),
            extra=read_data(one["extra"]),
            source_dag_id=one["dag_id"],
            source_run_id=one["run_id"],
            source_task_id=one["task_id"],
            source_map_index=one["map_index"],
            alias=None if one["alias"] is None else AssetAlias(one["alias"]),
            partition_key=one.get("partition_key"),
        )
        for one in answer
    ]


def _by_asset(events: Iterable[AssetEvent]) -> dict[Asset, list[AssetEvent]]:
    found: dict[Asset, list[AssetEvent]] = {}
    for event in events:
        found.setdefault(event.asset, []).append(event)
    return found
