"""Where variables and connections come from: backends, the environment of the web server, the database. No values."""

from __future__ import annotations

import os
from typing import Final, Literal

from fastapi import APIRouter
from pydantic import BaseModel

from aiosched.backends.backend import KINDS
from aiosched.backends.sources import DATABASE, Names, names_in_backends, names_in_environment, origins_of
from aiosched.db.crypto.keyring import Keyring
from aiosched.db.people.secrets import SecretStore
from aiosched.web.auth.access import Role, RoleScope, allow
from aiosched.web.requests.request_client import TheRequestClient

router: APIRouter = APIRouter(tags=["Secrets"])

_MOST: Final = 10_000  # names in the database of each kind


class SecretSource(BaseModel):
    """A name in one place: a backend, `environment` or `database`. `hidden_by` is the place that counts instead."""

    kind: Literal["variable", "connection"]
    name: str
    source: str
    hidden_by: str | None


class SecretSources(BaseModel):
    """All names by kind and name. `problems`: which backends could not be asked."""

    items: list[SecretSource]
    problems: list[str]


@router.get("/secret-sources")
@allow(Role.EDITOR, RoleScope.EVERYWHERE)
async def list_secret_sources(request_client: TheRequestClient) -> SecretSources:
    """Where variables and connections come from, and which hides another of the same name."""
    store = SecretStore(request_client.db, Keyring.of(request_client.settings))
    stored = {
        "variable": {one.key for one in await store.list_variables(limit=_MOST)},
        "connection": {one.conn_id for one in await store.list_connections(limit=_MOST)},
    }
    found, problems = [], []
    for kind in KINDS:
        in_backends, unknown = await names_in_backends(request_client.backends, kind)
        problems += unknown
        places = [*in_backends, names_in_environment(kind, os.environ), Names(DATABASE, stored[kind])]
        found += [
            SecretSource(kind=kind, name=one.name, source=one.source, hidden_by=one.hidden_by)
            for one in origins_of(places)
        ]
    return SecretSources(items=found, problems=sorted(set(problems)))
