"""At most so many runs of a DAG at a time for each value of a key in their conf, such as a tenant.

All runs of a DAG have one owner, so it counts them alone. Source: docs/semantics.md, "Runs by key".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from aiosched.core.graph.spec import RunKeySpec

PER_KEY: Final = "max_active_runs_per_key"
_SHOWN: Final = 60  # characters of a key
_encoder = msgspec.json.Encoder(order="sorted")


def key_of(spec: RunKeySpec, conf: Mapping[str, Any]) -> str | None:
    """The JSON of the key in a run's conf; None for a run that has none, and is not limited."""
    value: Any = conf
    for name in spec.path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return None if value is None else _encoder.encode(value).decode()


def same_key(spec: RunKeySpec | None, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether runs with these confs count for the same key."""
    return spec is not None and (key := key_of(spec, one)) is not None and key == key_of(spec, other)


class KeyRoom:
    """How many more runs may start for each key, while the runs with these confs are under way."""

    def __init__(self, spec: RunKeySpec, running: Iterable[Mapping[str, Any]]) -> None:
        self.spec = spec
        self._taken = Counter(key for conf in running if (key := key_of(spec, conf)) is not None)

    def copy(self) -> KeyRoom:
        """Another one to try things with."""
        twin = KeyRoom(self.spec, ())
        twin._taken = self._taken.copy()
        return twin

    def left(self, key: str) -> int:
        """How many more runs with this key may start."""
        return self.spec.most - self._taken[key]

    def held(self, conf: Mapping[str, Any]) -> str | None:
        """The key of a run that must wait for another one with the same; None if it may start."""
        key = key_of(self.spec, conf)
        return key if key is not None and self.left(key) <= 0 else None

    def take(self, conf: Mapping[str, Any]) -> None:
        """Count a run that starts."""
        if (key := key_of(self.spec, conf)) is not None:
            self._taken[key] += 1

    def explained(self, key: str) -> str:
        """Why a run with this key waits."""
        shown = key if len(key) <= _SHOWN else f"{key[:_SHOWN]}…"
        name = ".".join(self.spec.path)
        return f"{PER_KEY}={self.spec.most} reached: {self._taken[key]} running with {name}={shown}"
