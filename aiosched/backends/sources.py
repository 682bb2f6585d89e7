"""Where each variable or connection comes from, and which one hides another of the same name. Reads no value."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from aiosched.backends.asking import AskedBackend, Backends
from aiosched.backends.backend import Kind
from aiosched.errors import SecretBackendError

DATABASE: Final = "database"
ENVIRONMENT: Final = "environment"
PREFIXES: Final[Mapping[Kind, tuple[str, str]]] = {
    "variable": ("AIOSCHED_VAR_", "AIRFLOW_VAR_"),
    "connection": ("AIOSCHED_CONN_", "AIRFLOW_CONN_"),
}


class SecretOrigin(NamedTuple):
    """A name, where it is, and what hides it there; None: it counts."""

    name: str
    source: str
    hidden_by: str | None = None


class Names(NamedTuple):
    """The names in one place; `ignores_case` for environment variables."""

    source: str
    names: Collection[str]
    ignores_case: bool = False

    def has(self, name: str) -> bool:
        """Whether a look-up of `name` finds something here."""
        return (name.lower() if self.ignores_case else name) in self.names


def origins_of(places: Sequence[Names]) -> list[SecretOrigin]:
    """Every name of every place, by name; of places with the same name the first one counts.

    >>> [tuple(one) for one in origins_of([Names("vault", {"a"}), Names("database", {"a", "b"})])]
    [('a', 'vault', None), ('a', 'database', 'vault'), ('b', 'database', None)]
    """
    found = []
    for rank, place in enumerate(places):
        for name in place.names:
            hidden_by = next((before.source for before in places[:rank] if before.has(name)), None)
            found.append((name, rank, SecretOrigin(name, place.source, hidden_by)))
    return [origin for _, _, origin in sorted(found, key=lambda entry: entry[:2])]


def names_in_environment(kind: Kind, environ: Iterable[str]) -> Names:
    """Those of the variables of this process, in lower case."""
    found = {
        variable.removeprefix(prefix).lower()
        for variable in environ
        for prefix in PREFIXES[kind]
        if variable.startswith(prefix)
    }
    return Names(ENVIRONMENT, found, ignores_case=True)


async def names_in_backends(backends: Backends, kind: Kind) -> tuple[list[Names], list[str]]:
    """The names in the backends, in their order, and what could not be found out."""

    async def listed(backend: AskedBackend) -> Names | str:
        try:
            names = await backend.names(kind)
        except SecretBackendError as error:
            return str(error)
        return f"The backend {backend.name} cannot list its names." if names is None else Names(backend.name, names)

    found = await asyncio.gather(*map(listed, backends.all))
    return [one for one in found if isinstance(one, Names)], [one for one in found if isinstance(one, str)]
