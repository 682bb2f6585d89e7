"""Sessions of users: what their cookies hold, and a token against forged requests of other sites.

The cookie of a session is a random word; the session itself is a row (db/people/web_sessions.py), which any web server
finds by the word's hash. How the cookie is kept is in cookies.py. A request that changes something must send the
session's CSRF token in `X-CSRF-Token`; `GET /me` returns it. A login that has begun at an identity provider is a signed
cookie, since it has no user yet.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Final

import msgspec
from itsdangerous import BadData, URLSafeSerializer
from itsdangerous import Signer as SignatureOf

from aiosched.core.access.rights import PersonRights
from aiosched.web.auth.oidc import Flow

CSRF_HEADER: Final = "X-CSRF-Token"

_SIGNATURES: Final[dict[str, Any]] = {"key_derivation": "hmac", "digest_method": hashlib.sha256}


@dataclass(frozen=True, slots=True)
class WebSession:
    """A user's session. `token` is the value of its cookie."""

    id: int
    name: str
    rights: PersonRights
    token: str


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs with keys that all web servers share: the last one signs, all are accepted."""

    keys: tuple[bytes, ...]

    def seal_flow(self, flow: Flow) -> str:
        """The value of the cookie of a login that has begun at an identity provider."""
        return self._flows().dumps(msgspec.to_builtins(flow))

    def open_flow(self, cookie: str, now: float) -> Flow | None:
        """The login in a cookie; None for a forged, broken or expired one."""
        try:
            found = msgspec.convert(self._flows().loads(cookie), Flow)
        except (BadData, UnicodeError, msgspec.ValidationError):
            return None
        return found if found.expires > now else None

    def seal_device(self, name: str) -> str:
        """The value of a cookie that says that this user has logged in with this browser."""
        return self._devices().dumps([name, token_hex(8)])

    def open_device(self, cookie: str, name: str) -> str | None:
        """The id of the browser; None for a forged cookie, or one of another user."""
        try:
            found = msgspec.convert(self._devices().loads(cookie), tuple[str, str])
        except (BadData, UnicodeError, msgspec.ValidationError):
            return None
        return found[1] if found[0] == name else None

    def csrf(self, session: WebSession) -> str:
        """The CSRF token of a session."""
        return self._csrf().get_signature(session.token.encode()).decode()

    def is_csrf(self, session: WebSession, token: str) -> bool:
        """Whether `token` belongs to the session."""
        return self._csrf().verify_signature(session.token.encode(), token.encode("utf-8", "surrogatepass"))

    def _flows(self) -> URLSafeSerializer:
        return URLSafeSerializer(self.keys, salt="aiosched flow", signer_kwargs=_SIGNATURES)

    def _devices(self) -> URLSafeSerializer:
        return URLSafeSerializer(self.keys, salt="aiosched device", signer_kwargs=_SIGNATURES)

    def _csrf(self) -> SignatureOf:
        return SignatureOf(self.keys, salt="aiosched csrf", **_SIGNATURES)
