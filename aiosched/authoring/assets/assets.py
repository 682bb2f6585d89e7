"""Assets: what tasks produce, and what DAGs and tasks wait for or read.

    orders = Asset("orders", uri="s3://shop/orders")

    DAG("report", schedule=orders & (customers | AssetAlias("late_customers")))
    @task(outlets=[orders])

Here are assets, aliases, references and conditions. Their events in a task: asset_events.py; `@asset`:
decorators/asset_dags.py; when a condition is met: core/assets/conditions.py.

Source: the semantics reference, sections 15.1 to 15.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final

from aiosched.authoring.base.checks import fail, optional_duration
from aiosched.authoring.base.plain_values import strict_json
from aiosched.authoring.runtime.xcom_values import named_parts
from aiosched.core.assets.conditions import (
    AliasRequired,
    AllRequired,
    AnyRequired,
    AssetExpression,
    AssetRequired,
    ReferenceRequired,
    WatcherSpec,
)

if TYPE_CHECKING:
    from aiosched.authoring.triggers.base import BaseTrigger

_MAX_BYTES: Final = 1500  # bytes: names are indexed


class Condition:
    """A condition for `DAG(schedule=…)`, to be combined with `&` and `|`."""

    __slots__ = ()

    def __and__(self, other: Condition) -> AssetAll:
        return AssetAll(self, other) if isinstance(other, Condition) else NotImplemented

    def __or__(self, other: Condition) -> AssetAny:
        return AssetAny(self, other) if isinstance(other, Condition) else NotImplemented

    def to_expression(self) -> AssetExpression:
        """The condition as in the serialized DAG."""
        raise NotImplementedError


class AssetWatcher:
    """Creates an asset event for each event of `trigger`, while an unpaused DAG is scheduled on the asset.

    The trigger may yield any number of events. It may run twice for a short time, and starts again after a restart,
    so it must store its progress elsewhere. The event's `extra` has the watcher's name and the payload.
    """

    __slots__ = ("name", "trigger")

    def __init__(self, name: str, trigger: BaseTrigger) -> None:
        self.name: str = _named("AssetWatcher", name)
        self.trigger: BaseTrigger = trigger

    def to_spec(self) -> WatcherSpec:
        """The serialized form. Raises DagError for a trigger that cannot be serialized."""
        from aiosched.authoring.triggers.base import BaseTrigger  # few assets are watched
        from aiosched.authoring.triggers.encoding import dump

        if not isinstance(self.trigger, BaseTrigger):
            raise fail(f"AssetWatcher {self.name!r} needs a trigger, not {self.trigger!r}: give a BaseTrigger.")
        try:
            classpath, kwargs = self.trigger.serialize()
            return WatcherSpec(self.name, classpath, dump(dict(kwargs), f"kwargs of {type(self.trigger).__name__}"))
        except TypeError as error:
            raise fail(f"AssetWatcher {self.name!r}: {error}") from None


@dataclass(frozen=True, slots=True)
class AssetAccessControl:
    """Which teams may produce and consume an asset; it is kept and shown.

    An installation of aiosched has one team, whose DAGs see all its assets, so it forbids nothing.
    """

    producer_teams: Sequence[str] = ()
    consumer_teams: Sequence[str] | None = None  # None: all
    allow_global: bool = True  # also those without a team

    def __post_init__(self) -> None:
        for teams in (self.producer_teams, self.consumer_teams or ()):
            if isinstance(teams, str) or not all(isinstance(team, str) and team.strip() for team in teams):
                raise fail(f"AssetAccessControl: {teams!r} is wrong: give a list of names of teams.")


class Asset(Condition):
    """Something that tasks produce and others wait for: a table, a file, a model.

    `name` identifies the asset in the whole installation; `uri` is its location. Each is the default of the other.
    `group` is where it belongs in the catalogue. `extra` is about the asset itself: values by name, of types of Python
    and libraries; its `description` and `owners` are shown and searched. `watchers` create events for
    what happens outside. `access_control` is shown with the asset. For `fresh_within` after its last event the asset
    is fresh; without it the schedules of its producers say when an event is expected. Assets with the same name are
    equal.
    """

    __slots__ = ("access_control", "extra", "fresh_within", "group", "name", "uri", "watchers")

    def __init__(
        self,
        name: str | None = None,
        uri: str | None = None,
        *,
        group: str = "asset",
        extra: Mapping[str, Any] | None = None,
        watchers: Iterable[AssetWatcher] = (),
        access_control: AssetAccessControl | None = None,
        fresh_within: timedelta | float | None = None,
    ) -> None:
        self.access_control: AssetAccessControl | None = access_control
        self.watchers: tuple[AssetWatcher, ...] = tuple(watchers)
        self.name: str = _named("Asset", name if name is not None else uri)
        self.uri: str = _named("Asset", uri if uri is not None else name, "uri")
        self.group: str = _named("Asset", group, "group")
        self.fresh_within: timedelta | None = _fresh_within(self.name, fresh_within)
        self.extra: dict[str, Any] = dict(extra or {})
        try:
            named_parts(self.extra)
        except TypeError as error:
            raise fail(f"The extra of asset {self.name!r} cannot be stored: {error}.") from None

    @staticmethod
    def ref(name: str | None = None, uri: str | None = None) -> AssetLink:
        """A reference to an asset that is defined elsewhere, by either name or URI."""
        return AssetLink(name=name, uri=uri)

    def to_expression(self) -> AssetRequired:
        watchers = tuple(watcher.to_spec() for watcher in self.watchers)
        uri = "" if self.uri == self.name else self.uri
        within = None if self.fresh_within is None else self.fresh_within.total_seconds()
        return AssetRequired(self.name, uri, self.shown_extra, watchers, within, self.group)

    @property
    def shown_extra(self) -> dict[str, Any]:
        """`extra` as it is stored and shown: with `access_control`, if there is one, and the marks of its types."""
        access = self.access_control
        parts = named_parts(self.extra)
        return parts if access is None else {**parts, "access_control": strict_json(asdict(access))}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Asset) and other.name == self.name

    def __hash__(self) -> int:
        return hash(("asset", self.name))

    def __repr__(self) -> str:
        return f"Asset({self.name!r})" if self.uri == self.name else f"Asset({self.name!r}, uri={self.uri!r})"


class AssetAlias(Condition):
    """A name for assets that a task chooses at run time: `outlet_events[alias].add(Asset(…))`."""

    __slots__ = ("group", "name")

    def __init__(self, name: str, *, group: str = "asset") -> None:
        self.name: str = _named("AssetAlias", name)
        self.group: str = group

    def to_expression(self) -> AliasRequired:
        return AliasRequired(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AssetAlias) and other.name == self.name

    def __hash__(self) -> int:
        return hash(("alias", self.name))

    def __repr__(self) -> str:
        return f"AssetAlias({self.name!r})"


class AssetLink(Condition):
    """Returned by `Asset.ref(…)`: a reference to an asset that is defined elsewhere."""

    __slots__ = ("name", "uri")

    def __init__(self, *, name: str | None = None, uri: str | None = None) -> None:
        if (name is None) == (uri is None):
            raise fail("Asset.ref(…) takes a name or a URI: give exactly one of them.")
        self.name: str = "" if name is None else _named("Asset.ref", name)
        self.uri: str = "" if uri is None else _named("Asset.ref", uri, "uri")

    def to_expression(self) -> ReferenceRequired:
        return ReferenceRequired(self.name, self.uri)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AssetLink) and (other.name, other.uri) == (self.name, self.uri)

    def __hash__(self) -> int:
        return hash(("link", self.name, self.uri))

    def __repr__(self) -> str:
        return f"Asset.ref(name={self.name!r})" if self.name else f"Asset.ref(uri={self.uri!r})"


class _Combined(Condition):
    """Several conditions."""

    __slots__ = ("members",)
    expression: ClassVar[type[AllRequired | AnyRequired]]

    def __init__(self, *members: Condition) -> None:
        self.members: tuple[Condition, ...] = _members(type(self), members)

    def to_expression(self) -> AssetExpression:
        return self.expression(tuple(member.to_expression() for member in self.members))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.members))})"


class AssetAll(_Combined):
    """Met when every member is: `a & b`, `AssetAll(a, b)`, or the list `[a, b]` as a schedule."""

    __slots__ = ()
    expression = AllRequired


class AssetAny(_Combined):
    """Met when at least one member is: `a | b`, or `AssetAny(a, b)`."""

    __slots__ = ()
    expression = AnyRequired


Outlet = Asset | AssetAlias | AssetLink


def outlet_of(value: object) -> Outlet | None:
    """The asset, alias or link that `value` is or names; None for anything else."""
    if isinstance(value, Outlet):
        return value
    return Asset(value) if isinstance(value, str) else None


def _members(kind: type[_Combined], members: Iterable[Condition]) -> tuple[Condition, ...]:
    """The members, with nested conditions of the same kind flattened."""
    found: list[Condition] = []
    for member in members:
        if not isinstance(member, Condition):
            raise fail(f"{member!r} in {kind.__name__}(…) is not an asset. Write Asset({member!r}).")
        found += member.members if isinstance(member, kind) else [member]
    if not found:
        raise fail(f"{kind.__name__}() names no assets. Give at least one.")
    return tuple(found)


def _fresh_within(name: str, value: timedelta | float | None) -> timedelta | None:
    found = optional_duration("fresh_within", value)
    if found is not None and not found:
        raise fail(f"Asset {name!r}: fresh_within=0 makes it late at once. Give a longer time, or leave it out.")
    return found


def _named(kind: str, value: object, what: str = "name") -> str:
    if isinstance(value, str) and value.strip() and value.isprintable() and len(value.encode()) <= _MAX_BYTES:
        return value
    raise fail(f"{kind}({what}={value!r:.80}) is wrong: give printable text of 1 to {_MAX_BYTES} bytes (UTF-8).")
