"""Sessions of people: a signed cookie, and a token against requests that other sites forge.

The cookie says who logged in and until when, signed with a key that all web servers share, so any of
them can answer. It ends early when the person's password or role changes. It is `HttpOnly`,
`SameSite=Lax`, and `Secure` where the page came by https. A request that changes something must bring the
session's CSRF token in `X-CSRF-Token`; `GET /me` tells it to the page.
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
    """Who logged in, until which second since 1970, and how often sessions of this person had been ended then."""

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
        """The session in a cookie; None for one that is forged, broken or over."""
        return self._open("session", cookie, now, WebSession)

    def seal_flow(self, flow: Flow) -> str:
        """The same for a login with a provider that has begun."""
        return self._seal("flow", flow)

    def open_flow(self, cookie: str, now: float) -> Flow | None:
        return self._open("flow", cookie, now, Flow)

    def csrf(self, session: WebSession) -> str:
        """The token that goes with a session."""
        return self._csrf().get_signature(msgspec.json.encode(session)).decode()

    def is_csrf(self, session: WebSession, token: str) -> bool:
        """Whether `token` goes with the session."""
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
