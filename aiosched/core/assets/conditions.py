"""Which asset events trigger a DAG run: expressions over assets, and the rules of asset-triggered runs.

Lives here: the condition in a DAG's schedule (stored in the serialized DAG), whether queued events meet it, which DAGs
can get a run now, and what such a run looks like. Does not live here: storing events and creating the runs
(scheduler/runs/asset_runs.py), the objects that authors write (authoring/assets/assets.py).

Source: the semantics reference, sections 14.3 and 15; section 34, decisions 4 and 5.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

NOTHING: Final[Mapping[str, Collection[str]]] = MappingProxyType({})
DEFINED_BY_NOBODY: Final = "no DAG file and no application defines the DAG any more"


class WatcherSpec(msgspec.Struct, frozen=True):
    """A trigger whose events are events of an asset. `kwargs` is a JSON object."""

    name: str
    classpath: str
    kwargs: str = "{}"


NO_GROUP: Final = "asset"  # the group of an asset that is in none


class AssetRequired(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="asset"):
    """One asset: its name identifies it, its URI is its location."""

    name: str
    uri: str = ""
    extra: dict[str, Any] = {}  # of the asset itself, for users
    watchers: tuple[WatcherSpec, ...] = ()
    fresh_within: float | None = None  # seconds; see freshness.py
    group: str = NO_GROUP

    def __str__(self) -> str:
        return self.name


class AliasRequired(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="alias"):
    """Any of the assets that an alias points to; tasks choose them at run time."""

    name: str

    def __str__(self) -> str:
        return f"alias {self.name}"


class ReferenceRequired(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="reference"):
    """An asset that another DAG defines, by its name or by its URI: exactly one of them is given."""

    name: str = ""
    uri: str = ""

    def __str__(self) -> str:
        return self.name or self.uri


class AllRequired(msgspec.Struct, frozen=True, tag_field="kind", tag="all"):
    """Every member."""

    members: tuple[AssetExpression, ...]

    def __str__(self) -> str:
        return " & ".join(map(_in_brackets, self.members))


class AnyRequired(msgspec.Struct, frozen=True, tag_field="kind", tag="any"):
    """At least one member."""

    members: tuple[AssetExpression, ...]

    def __str__(self) -> str:
        return " | ".join(map(_in_brackets, self.members))


AssetExpression = AssetRequired | AliasRequired | ReferenceRequired | AllRequired | AnyRequired
Leaf = AssetRequired | AliasRequired | ReferenceRequired


class AssetId(NamedTuple):
    """An asset with queued events."""

    name: str
    uri: str = ""


def leaves(expression: AssetExpression) -> Iterator[Leaf]:
    """The assets, aliases and references of an expression, with duplicates."""
    if isinstance(expression, (AllRequired, AnyRequired)):
        for member in expression.members:
            yield from leaves(member)
    else:
        yield expression


def is_met(
    expression: AssetExpression, queued: Collection[AssetId], aliases: Mapping[str, Collection[str]] = NOTHING
) -> bool:
    """Whether `queued`, the assets with events for the DAG, meet its condition.

    `aliases` maps each alias to the names of its assets; an alias without assets is not met. Source: the semantics
    reference, section 15.3.
    """
    if isinstance(expression, AllRequired):
        return all(is_met(member, queued, aliases) for member in expression.members)
    if isinstance(expression, AnyRequired):
        return any(is_met(member, queued, aliases) for member in expression.members)
    if isinstance(expression, AliasRequired):
        targets = aliases.get(expression.name, ())
        return any(asset.name in targets for asset in queued)
    if isinstance(expression, ReferenceRequired) and expression.uri:
        return any(asset.uri == expression.uri for asset in queued)
    return any(asset.name == expression.name for asset in queued)


def alias_names(expression: AssetExpression) -> set[str]:
    """The aliases that a condition names."""
    return {leaf.name for leaf in leaves(expression) if isinstance(leaf, AliasRequired)}


def _in_brackets(member: AssetExpression) -> str:
    return f"({member})" if isinstance(member, (AllRequired, AnyRequired)) else str(member)


# -- the runs of a DAG --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QueuedAsset:
    """A queue row: an asset with events that no run of the DAG has consumed yet.

    There is one row for all of these events. `at` is the instant of the newest event.
    """

    asset_id: int
    asset: AssetId
    at: datetime


@dataclass(frozen=True, slots=True)
class AssetStatus:
    """The facts that decide whether a DAG gets an asset-triggered run."""

    condition: AssetExpression | None  # None: not scheduled on assets (any longer)
    active_runs: int  # queued and running runs of all types
    max_active_runs: int
    is_paused: bool = False
    is_stale: bool = False
    has_import_errors: bool = False


def why_not_triggered(
    dag: AssetStatus, queue: Collection[QueuedAsset], aliases: Mapping[str, Collection[str]] = NOTHING
) -> str | None:
    """Why the DAG's queued events do not trigger a run now, as text; None if they do.

    Source: the semantics reference, sections 14.3, 15.3 and 15.4 step 1.
    """
    if dag.condition is None:
        return "the DAG is not scheduled on assets"
    if dag.has_import_errors:
        return "its file cannot be imported"
    if dag.is_stale:
        return DEFINED_BY_NOBODY
    if dag.is_paused:
        return "the DAG is paused"
    if not is_met(dag.condition, [row.asset for row in queue], aliases):
        return f"waits for {dag.condition}"
    if dag.active_runs >= dag.max_active_runs:
        return f"max_active_runs={dag.max_active_runs} reached: {dag.active_runs} runs are queued or running"
    return None


def triggering_instant(queue: Collection[QueuedAsset]) -> datetime:
    """The instant at which the condition became true according to the queue: that of its newest event (15.4 step 3)."""
    return max(row.at for row in queue).astimezone(UTC)


def consumed_after(previous: datetime | None, *, scheduled_at: datetime | None, catchup: bool) -> datetime | None:
    """The instant after which events belong to the next asset run; None for all of them (15.4 step 5).

    `previous` is `run_after` of the DAG's previous asset run, `scheduled_at` when it was first
    scheduled on its assets.
    """
    if previous is not None:
        return previous
    return None if catchup else scheduled_at


# -- what a DAG says about assets -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AssetReference:
    """One mention of an asset in a DAG, as stored for queries."""

    role: str  # schedule, inlet, outlet
    kind: str  # asset, alias, name, uri
    name: str  # of the asset or alias; the URI for kind uri
    uri: str = ""
    task_id: str = ""  # empty for the schedule
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)
    watchers: tuple[WatcherSpec, ...] = ()
    partitioned: bool = False  # by a schedule whose runs are of partitions
    fresh_within: float | None = None  # seconds; see freshness.py
    group: str = NO_GROUP
    is_check: bool = False  # of an inlet: the task checks it


def reference_of(leaf: Leaf) -> AssetReference:
    """The schedule's mention of one asset."""
    if isinstance(leaf, AssetRequired):
        return AssetReference(
            "schedule",
            "asset",
            leaf.name,
            leaf.uri or leaf.name,
            extra=leaf.extra,
            watchers=leaf.watchers,
            fresh_within=leaf.fresh_within,
            group=leaf.group,
        )
    if isinstance(leaf, AliasRequired):
        return AssetReference("schedule", "alias", leaf.name)
    if leaf.uri:
        return AssetReference("schedule", "uri", leaf.uri)
    return AssetReference("schedule", "name", leaf.name)
