"""Passwords and tokens: stored as hashes only.

A password is hashed with scrypt (32 MB, about 80 ms), off the event loop. A token is 32 random bytes, so a plain
SHA-256 of it is enough.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
from typing import Final

from aiosched.errors import Refused

SHORTEST: Final = 8
TOKEN_PREFIX: Final = "aios_"  # makes a leaked token easy to find

LOG2_COST = 15  # tests have less
_BLOCK, _PARALLEL = 8, 1
_MEMORY: Final = 2**27


def check_password(password: str) -> None:
    """Raise Refused for a password that is too short, too long or not printable."""
    if len(password) < SHORTEST:
        raise Refused(f"A password needs at least {SHORTEST} characters.")
    if len(password) > 1000 or not password.isprintable():
        raise Refused("A password has at most 1,000 printable characters.")


async def hash_password(password: str) -> str:
    """`scrypt$15$8$1$salt$hash`, with a salt of its own."""
    salt = secrets.token_bytes(16)
    digest = await asyncio.to_thread(_scrypt, password, salt, LOG2_COST, _BLOCK, _PARALLEL)
    return _stored(salt, digest)


async def verify_password(password: str, stored: str | None) -> bool:
    """Whether `password` is the stored one. Takes the same time without one, so that names cannot be probed."""
    _, cost, block, parallel, salt, digest = (stored or _stored(bytes(16), b"")).split("$")
    found = await asyncio.to_thread(_scrypt, password, base64.b64decode(salt), int(cost), int(block), int(parallel))
    return hmac.compare_digest(found, base64.b64decode(digest)) and stored is not None


def _scrypt(password: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    secret = password.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(secret, salt=salt, n=2**cost, r=block, p=parallel, maxmem=_MEMORY, dklen=32)


def _stored(salt: bytes, digest: bytes) -> str:
    numbers = f"{LOG2_COST}${_BLOCK}${_PARALLEL}"
    return f"scrypt${numbers}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"


def check_lifetime(days: float | None, most: float) -> None:
    """Raise Refused for a token that lasts longer than `web.max_token_days`; None: it never expires. `most` 0: any."""
    if most and (days is None or days > most):
        wanted = "never expires" if days is None else f"lasts {days:g} days"
        raise Refused(f"A token that {wanted} is not allowed: at most {most:g} days (web.max_token_days).")


def new_token() -> str:
    """A token to hand out once."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    """The stored hash of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
