"""JSON texts that are stored encrypted if there is a key, and in plain text otherwise.

A sealed text is a JSON string (a Fernet token) and plain texts are JSON objects, so one column can hold both, and rows
of the time before there was a key remain readable. Used for the arguments of triggers (triggers.py).

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

logger: logging.Logger = logging.getLogger(__name__)

NOTHING: Final = "{}"  # holds no secret

# Index: primary keys.
ANY_SECRET: Final = "SELECT EXISTS (SELECT FROM variable) OR EXISTS (SELECT FROM connection)"


async def sealed(conn: DatabaseConnection, texts: Iterable[str], keyring: Keyring | None) -> Mapping[str, str]:
    """The values of `texts` that get encrypted, in stored form; the others remain unchanged.

    Encrypts in a thread, so the loop is not blocked.
    """
    plain = sorted({text for text in texts if text != NOTHING})
    if plain and keyring is not None:
        try:
            if await has_key(conn, keyring):
                return await asyncio.to_thread(_seal, plain, keyring)
        except (ConfigError, Refused, OSError) as error:  # tasks continue to wait even if the keys are unusable
            logger.error("the arguments of triggers are stored as readable text: %s", error)
    return {}


def is_sealed(text: str) -> bool:
    """Whether a stored JSON text is a token."""
    return text.startswith('"')


def opened(text: str, keyring: Keyring | None, *, what: str) -> str:
    """The JSON text that was sealed; a plain text is returned unchanged. Raises Refused naming `what`."""
    return (keyring or Keyring()).decrypt(json.loads(text), what=what) if is_sealed(text) else text


def _seal(texts: Collection[str], keyring: Keyring) -> dict[str, str]:
    return {text: json.dumps(token) for text, token in zip(texts, keyring.encrypt_all(texts), strict=True)}


async def has_key(conn: DatabaseConnection, keyring: Keyring) -> bool:
    """Whether there is a key. A key file is created if there was none; a lost one is not silently replaced."""
    if keyring.exists:
        return True
    if keyring.file is None or await conn.fetchval(ANY_SECRET):
        return False
    await asyncio.to_thread(make_key_file, keyring.file)
    return True
