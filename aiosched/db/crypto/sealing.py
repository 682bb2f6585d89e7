"""JSON texts that are stored encrypted where there is a key, and readable where there is none.

A sealed text is a JSON string (a Fernet token); what is sealed are JSON objects, so one column holds both, and what
version 0.1 stored unencrypted is still read. Used for the arguments of triggers (triggers.py).

Source: the semantics reference, section 25.1.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from aiosched.db.crypto.keyring import Keyring, make_key_file
from aiosched.db.server.connection import DatabaseConnection
from aiosched.errors import ConfigError, Refused

logger = logging.getLogger(__name__)

NOTHING: Final = "{}"  # holds no secret

# Index: primary keys.
ANY_SECRET: Final = "SELECT EXISTS (SELECT FROM variable) OR EXISTS (SELECT FROM connection)"


async def sealed(conn: DatabaseConnection, texts: Iterable[str], keyring: Keyring | None) -> Mapping[str, str]:
    """Those of `texts` that are encrypted, as they are to be stored; the others stay as they are.

    Encrypting takes place in a thread, the loop goes on meanwhile.
    """
    plain = sorted({text for text in texts if text != NOTHING})
    if plain and keyring is not None:
        try:
            if await _has_key(conn, keyring):
                return await asyncio.to_thread(_seal, plain, keyring)
        except (ConfigError, Refused, OSError) as error:  # tasks go on waiting, whatever is wrong with the keys
            logger.error("the arguments of triggers are stored as readable text: %s", error)
    return {}


def is_sealed(text: str) -> bool:
    """Whether a stored JSON text is a token."""
    return text.startswith('"')


def opened(text: str, keyring: Keyring | None, *, what: str) -> str:
    """The JSON text that was sealed; one that is readable as it is. Raises Refused naming `what` it is."""
    return (keyring or Keyring()).decrypt(json.loads(text), what=what) if is_sealed(text) else text


def _seal(texts: Collection[str], keyring: Keyring) -> dict[str, str]:
    return {text: json.dumps(token) for text, token in zip(texts, keyring.encrypt_all(texts), strict=True)}


async def _has_key(conn: DatabaseConnection, keyring: Keyring) -> bool:
    """Whether there is a key. A key file is made when there was none; a lost one is not silently replaced."""
    if keyring.exists:
        return True
    if keyring.file is None or await conn.fetchval(ANY_SECRET):
        return False
    await asyncio.to_thread(make_key_file, keyring.file)
    return True
