"""The tokens of attempts on engines: what a worker shows to the worker API instead of a password.

A token is signed with the key that all web servers of a database share. It is good for one attempt, which it names,
and of no use once that attempt has ended, because its row is gone. It does not expire by itself: an attempt may wait
in an engine's queue for days.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from itsdangerous import BadSignature, Signer

from aiosched.core.values.messages import AttemptKey

_SIGNATURES: Final[dict[str, Any]] = {"digest_method": hashlib.sha256}


class AttemptToken(NamedTuple):
    """What a token says: the id of the attempt's row, and the attempt."""

    id: int
    key: AttemptKey


class TokenSigner:
    """Makes and reads tokens with a database's keys (db/people/signing_keys.py): the last one signs."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self.keys: tuple[bytes, ...] = tuple(keys)
        signer = Signer(list(keys), salt="aiosched attempt", key_derivation="hmac", **_SIGNATURES)
        ours = [signer.derive_key(key) for key in keys]
        self._signer = Signer(ours, key_derivation="none", **_SIGNATURES)

    def seal(self, attempt: int, key: AttemptKey) -> str:
        """The token of an attempt."""
        return self._signer.sign(".".join(map(str, (attempt, *key)))).decode()

    def open(self, token: str) -> AttemptToken | None:
        """What a token says; None for a forged or broken one."""
        try:
            number, *key = map(int, self._signer.unsign(token.encode()).split(b"."))
            return AttemptToken(number, AttemptKey(*key))
        except (BadSignature, ValueError, TypeError):
            return None
