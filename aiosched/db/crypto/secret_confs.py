"""Secret values of confs, encrypted in the database if there is a key, and decrypted for the tasks that get them.

Without a key they are readable there, as arguments of triggers are; people are shown `***` in any case.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from aiosched.core.graph.params import resolve_params
from aiosched.core.graph.secret_params import holds_secrets, mark_secrets
from aiosched.core.graph.spec import ParamSpec
from aiosched.core.values.messages import Attempt, RunInfo
from aiosched.core.values.secret_values import has_secrets, sealed, unreadable, unsealed
from aiosched.db.crypto.keyring import Keyring
from aiosched.db.crypto.sealing import has_key
from aiosched.db.server.connection import DatabaseConnection
from aiosched.errors import ConfigError, Refused

logger: logging.Logger = logging.getLogger(__name__)

_WHAT: Final = "a secret value of a run's conf"


@dataclass(frozen=True, slots=True)
class SecretConfs:
    """Confs of one database, with one keyring."""

    keyring: Keyring

    async def seal(self, conn: DatabaseConnection, conf: Mapping[str, Any]) -> dict[str, Any]:
        """`conf` as it is stored: its secrets encrypted, if there is a key."""
        if not has_secrets(conf):
            return dict(conf)
        try:
            if await has_key(conn, self.keyring):
                return dict(await asyncio.to_thread(sealed, conf, self.keyring.encrypt))
        except (ConfigError, Refused, OSError) as error:
            logger.error("secret values of a run's conf are stored as readable text: %s", error)
        return dict(conf)

    async def checked(
        self, conn: DatabaseConnection, params: Mapping[str, ParamSpec], conf: dict[str, Any]
    ) -> dict[str, Any]:
        """`conf` as its run stores it, by the params of the DAG now.

        Raises ParamError for a value that breaks its schema, Refused for one that cannot be decrypted.
        """
        if not has_secrets(conf) and not any(holds_secrets(each.json_schema) for each in params.values()):
            return conf
        opened = self.open(conf)
        resolve_params(params, opened)
        return await self.seal(conn, mark_secrets(params, opened))

    def open(self, conf: Mapping[str, Any]) -> dict[str, Any]:
        """`conf` with its secrets decrypted, and still marked. Raises Refused or ConfigError."""
        return dict(unsealed(conf, self._decrypt)) if has_secrets(conf) else dict(conf)

    def open_for_tasks(self, attempts: Iterable[Attempt]) -> list[Attempt]:
        """Attempts as tasks get them. If a secret cannot be decrypted, its task says why."""
        infos: dict[int, RunInfo] = {}  # the attempts of a run share its info
        return [self._open_attempt(attempt, infos) if attempt.run.conf else attempt for attempt in attempts]

    def _open_attempt(self, attempt: Attempt, infos: dict[int, RunInfo]) -> Attempt:
        run = attempt.run
        if not has_secrets(run.conf):
            return attempt
        if id(run) not in infos:
            try:
                conf = self.open(run.conf)
            except (ConfigError, Refused) as error:
                conf = unreadable(run.conf, str(error))
            infos[id(run)] = msgspec.structs.replace(run, conf=conf)
        return msgspec.structs.replace(attempt, run=infos[id(run)])

    def _decrypt(self, token: str) -> str:
        return self.keyring.decrypt(token, what=_WHAT)

    def renew(self, conf: Mapping[str, Any]) -> dict[str, Any]:
        """`conf` with its secrets encrypted by the first key. Raises Refused."""
        return dict(sealed(unsealed(conf, self._decrypt), self.keyring.encrypt))
