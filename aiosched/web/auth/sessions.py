"""Sessions of users: a signed cookie, and a token against forged requests of other sites.

The cookie says who logged in and until when, signed with a key that all web servers share, so that any of them can
answer. It ends early if the user's password or role changes. It is `HttpOnly`, `SameSite=Lax`, and `Secure` if the page
was loaded by https. A request that changes something must send the session's CSRF token in `X-CSRF-Token`; `GET /me`
returns it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec
from itsdangerous import BadData, URLSafeSerializer
from itsdangerous import Signer as SignatureOf

from aiosched.web.auth.oidc import Flow

COOKIE: Final = "aiosched_session"
CSRF_HEADER: Final = "X-CSRF-Token"

_SIGNATURES: Final[dict[str, Any]] = {"key_derivation": "hmac", "digest_method": hashlib.sha256}


class WebSession(msgspec.Struct, frozen=True, array_like=True):
    """Who logged in, until which second since 1970, and how often this user's sessions had been ended by then."""

    name: str
    expires: int
    void: int
    nonce: str


S = TypeVar("S", WebSession, Flow)


@dataclass(frozen=True, slots=True)
class Signer:
    """Makes and reads cookies."""

    key: bytes

    def seal(self, session: WebSession) -> str:
        """The value of the cookie."""
        return self._seal("session", session)

    def open(self, cookie: str, now: float) -> WebSession | None:
        """The session in a cookie; None for a forged, broken or expired one."""
        return self._open("session", cookie, now, WebSession)

    def seal_flow(self, flow: Flow) -> str:
        """As `seal`, for a login that has begun at an identity provider."""
        return self._seal("flow", flow)

    def open_flow(self, cookie: str, now: float) -> Flow | None:
        return self._open("flow", cookie, now, Flow)

    def csrf(self, session: WebSession) -> str:
        """The CSRF token of a session."""
        return self._csrf().get_signature(msgspec.json.encode(session)).decode()

    def is_csrf(self, session: WebSession, token: str) -> bool:
        """Whether `token` belongs to the session."""
        return self._csrf().verify_signature(msgspec.json.encode(session), token.encode("utf-8", "surrogatepass"))

    def _seal(self, purpose: str, value: msgspec.Struct) -> str:
        return self._cookies(purpose).dumps(msgspec.to_builtins(value))

    def _open(self, purpose: str, cookie: str, now: float, kind: type[S]) -> S | None:
        try:
            found = msgspec.convert(self._cookies(purpose).loads(cookie), kind)
        except (BadData, UnicodeError, msgspec.ValidationError):
            return None
        return found if found.expires > now else None

    def _cookies(self, purpose: str) -> URLSafeSerializer:
        return URLSafeSerializer(self.key, salt=f"aiosched {purpose}", signer_kwargs=_SIGNATURES)

    def _csrf(self) -> SignatureOf:
        return SignatureOf(self.key, salt="aiosched csrf", **_SIGNATURES)
