"""Secret values of confs in rows: which they are, by the params of the DAG, and their new encryption."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from aiosched.core.graph.secret_params import mark_secrets
from aiosched.core.graph.spec import ParamSpec
from aiosched.db.crypto.keyring import Keyring
from aiosched.db.crypto.secret_confs import SecretConfs
from aiosched.db.server.connection import DatabaseConnection
from aiosched.errors import Refused

# Index: the primary keys.
PARAMS: Final = """
    SELECT v.spec ->> 'params' FROM dag AS d JOIN dag_version AS v ON v.id = d.version_id WHERE d.dag_id = $1
"""
# Those of unfinished runs as well: their owners read them again when they are loaded. It reads all runs.
SEALED_CONFS: Final = """
    SELECT id, conf FROM {table} WHERE strpos(conf::text, '"$secret"') > 0 ORDER BY id FOR NO KEY UPDATE
"""
RENEW_CONF: Final = "UPDATE {table} SET conf = $2::json WHERE id = $1"
_TABLES: Final = ("dag_run", "backfill", "dag_schedule")
_decode: Final = msgspec.json.Decoder(dict[str, ParamSpec]).decode


async def protected(
    conn: DatabaseConnection, dag_id: str, requests: Sequence[Mapping[str, Any]], keyring: Keyring | None
) -> Sequence[Mapping[str, Any]]:
    """The arguments of requests as they are stored: the secrets of their `conf` are marked, and encrypted with a key.

    Values that the owner will find wrong are stored, too: it answers.
    """
    if not any(map(_conf_of, requests)):
        return requests
    text = await conn.fetchval(PARAMS, dag_id)
    if text is None or '"password"' not in text:
        params: dict[str, ParamSpec] = {}
    else:
        try:
            params = _decode(text)
        except msgspec.DecodeError:  # a newer aiosched has stored them; the owner decides
            return requests
    confs = SecretConfs(keyring or Keyring())
    return [
        {**args, "conf": await confs.seal(conn, mark_secrets(params, conf))} if (conf := _conf_of(args)) else args
        for args in requests
    ]


def _conf_of(args: Any) -> Mapping[str, Any]:
    """The conf in the arguments of a request, if it has one: any other program may write rows."""
    conf = args.get("conf") if isinstance(args, Mapping) else None
    return conf if isinstance(conf, Mapping) else {}


async def renew_confs(conn: DatabaseConnection, keyring: Keyring) -> int:
    """Encrypt the secret values of confs again, with the first key; returns the number of rows.

    Those that no key decrypts do not change.
    """
    confs, number = SecretConfs(keyring), 0
    for table in _TABLES:
        renewed = []
        for key, text in await conn.fetch(SEALED_CONFS.format(table=table)):
            with contextlib.suppress(Refused, msgspec.MsgspecError):
                renewed.append((key, msgspec.json.encode(confs.renew(msgspec.json.decode(text))).decode()))
        await conn.executemany(RENEW_CONF.format(table=table), renewed)
        number += len(renewed)
    return number
