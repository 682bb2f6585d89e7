"""Assets as authors write them: what a task makes, and what a DAG or task waits for or reads.

    orders = Asset("orders", uri="s3://shop/orders")

    DAG("report", schedule=orders & (customers | AssetAlias("late_customers")))
    @task(outlets=[orders])

Lives here: assets, aliases, links and conditions made of them. Does not live here: what a task says
about its events (asset_events.py), `@asset` (asset_dags.py), the rules (core/assets/conditions.py).

Source: the semantics reference, sections 15.1 to 15.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from aiosched.authoring.base.checks import fail
from aiosched.authoring.base.plain_values import strict_json
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

_LONGEST: Final = 1500  # bytes: names are indexed


class Condition:
    """What `&` and `|` make conditions of: usable as `DAG(schedule=…)`."""

    __slots__ = ()

    def __and__(self, other: Condition) -> AssetAll:
        return AssetAll(self, other) if isinstance(other, Condition) else NotImplemented

    def __or__(self, other: Condition) -> AssetAny:
        return AssetAny(self, other) if isinstance(other, Condition) else NotImplemented

    def to_expression(self) -> AssetExpression:
        """The condition as the serialized DAG holds it."""
        raise NotImplementedError


class AssetWatcher:
    """Makes an event of its asset of each event of `trigger`, as long as an unpaused DAG is scheduled on the asset.

    The trigger may run twice for a moment, and begins anew after a restart: it yields as often as it likes, and
    remembers elsewhere what it has told. The event's `extra` has the watcher's name and the payload.
    """

    __slots__ = ("name", "trigger")

    def __init__(self, name: str, trigger: BaseTrigger) -> None:
        self.name = _named("AssetWatcher", name)
        self.trigger = trigger

    def to_spec(self) -> WatcherSpec:
        """Its serialized form. Raises DagError for a trigger that cannot travel."""
        from aiosched.authoring.triggers.base import BaseTrigger  # few assets are watched
        from aiosched.authoring.triggers.encoding import dump

        if not isinstance(self.trigger, BaseTrigger):
            raise fail(f"AssetWatcher {self.name!r} needs a trigger, not {self.trigger!r}: give a BaseTrigger.")
        try:
            classpath, kwargs = self.trigger.serialize()
            return WatcherSpec(self.name, classpath, dump(dict(kwargs), f"kwargs of {type(self.trigger).__name__}"))
        except TypeError as error:
            raise fail(f"AssetWatcher {self.name!r}: {error}") from None


class Asset(Condition):
    """Something that tasks make and others wait for: a table, a file, a model.

    Its name says which asset it is, everywhere; `uri` says where it lies and is the name when left out
    (and the other way round). `extra` is a JSON object about the asset itself, `watchers` make events of it out of
    what happens elsewhere. Two with the same name are equal.
    """

    __slots__ = ("extra", "group", "name", "uri", "watchers")

    def __init__(
        self,
        name: str | None = None,
        uri: str | None = None,
        *,
        group: str = "asset",
        extra: Mapping[str, Any] | None = None,
        watchers: Iterable[AssetWatcher] = (),
    ) -> None:
        self.watchers = tuple(watchers)
        self.name = _named("Asset", name if name is not None else uri)
        self.uri = _named("Asset", uri if uri is not None else name, "uri")
        self.group = group
        try:
            self.extra: dict[str, Any] = strict_json(dict(extra or {}))
        except TypeError as error:
            raise fail(f"The extra of asset {self.name!r} cannot be stored: {error}.") from None

    @staticmethod
    def ref(name: str | None = None, uri: str | None = None) -> AssetLink:
        """An asset that another DAG defines, by exactly one of name and URI."""
        return AssetLink(name=name, uri=uri)

    def to_expression(self) -> AssetRequired:
        watchers = tuple(watcher.to_spec() for watcher in self.watchers)
        return AssetRequired(self.name, "" if self.uri == self.name else self.uri, self.extra, watchers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Asset) and other.name == self.name

    def __hash__(self) -> int:
        return hash(("asset", self.name))

    def __repr__(self) -> str:
        return f"Asset({self.name!r})" if self.uri == self.name else f"Asset({self.name!r}, uri={self.uri!r})"


class AssetAlias(Condition):
    """A name for assets that a task decides on while it runs: `outlet_events[alias].add(Asset(…))`."""

    __slots__ = ("group", "name")

    def __init__(self, name: str, *, group: str = "asset") -> None:
        self.name = _named("AssetAlias", name)
        self.group = group

    def to_expression(self) -> AliasRequired:
        return AliasRequired(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AssetAlias) and other.name == self.name

    def __hash__(self) -> int:
        return hash(("alias", self.name))

    def __repr__(self) -> str:
        return f"AssetAlias({self.name!r})"


class AssetLink(Condition):
    """What `Asset.ref(…)` makes: an asset that is defined elsewhere."""

    __slots__ = ("name", "uri")

    def __init__(self, *, name: str | None = None, uri: str | None = None) -> None:
        if (name is None) == (uri is None):
            raise fail("Asset.ref(…) takes a name or a URI: give exactly one of them.")
        self.name = "" if name is None else _named("Asset.ref", name)
        self.uri = "" if uri is None else _named("Asset.ref", uri, "uri")

    def to_expression(self) -> ReferenceRequired:
        return ReferenceRequired(self.name, self.uri)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AssetLink) and (other.name, other.uri) == (self.name, self.uri)

    def __hash__(self) -> int:
        return hash(("link", self.name, self.uri))

    def __repr__(self) -> str:
        return f"Asset.ref(name={self.name!r})" if self.name else f"Asset.ref(uri={self.uri!r})"


class AssetAll(Condition):
    """Met when every member is: `a & b`, `AssetAll(a, b)`, or the list `[a, b]` as a schedule."""

    __slots__ = ("members",)

    def __init__(self, *members: Condition) -> None:
        self.members = _members(AssetAll, members)

    def to_expression(self) -> AssetExpression:
        return AllRequired(tuple(member.to_expression() for member in self.members))

    def __repr__(self) -> str:
        return f"AssetAll({', '.join(map(repr, self.members))})"


class AssetAny(Condition):
    """Met when at least one member is: `a | b`, or `AssetAny(a, b)`."""

    __slots__ = ("members",)

    def __init__(self, *members: Condition) -> None:
        self.members = _members(AssetAny, members)

    def to_expression(self) -> AssetExpression:
        return AnyRequired(tuple(member.to_expression() for member in self.members))

    def __repr__(self) -> str:
        return f"AssetAny({', '.join(map(repr, self.members))})"


Outlet = Asset | AssetAlias | AssetLink


def outlet_of(value: object) -> Outlet | None:
    """The asset, alias or link that `value` is or names; None for anything else."""
    if isinstance(value, Outlet):
        return value
    return Asset(value) if isinstance(value, str) else None


def _members(kind: type[AssetAll | AssetAny], members: Iterable[Condition]) -> tuple[Condition, ...]:
    """The members; those of the same kind inside are taken out of their brackets."""
    found: list[Condition] = []
    for member in members:
        if not isinstance(member, Condition):
            raise fail(f"{member!r} in {kind.__name__}(…) is no asset. Write Asset({member!r}).")
        found += member.members if isinstance(member, kind) else [member]
    if not found:
        raise fail(f"{kind.__name__}() names no assets. Give some.")
    return tuple(found)


def _named(kind: str, value: object, what: str = "name") -> str:
    if isinstance(value, str) and value.strip() and value.isprintable() and len(value.encode()) <= _LONGEST:
        return value
    raise fail(f"{kind}({what}={value!r:.80}) is wrong: give printable text of 1 to {_LONGEST} bytes (UTF-8).")
