"""Sessions of people: a signed cookie, and a token against requests that other sites forge.

The cookie says who logged in and until when, signed with a key that all web servers share, so any of
them can answer. It ends early when the person's password or role changes. It is `HttpOnly`,
`SameSite=Lax`, and `Secure` where the page came by https. A request that changes something must bring the
session's CSRF token in `X-CSRF-Token`; `GET /me` tells it to the page.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from aiosched.web.auth.oidc import Flow

COOKIE: Final = "aiosched_session"
CSRF_HEADER: Final = "X-CSRF-Token"


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
        return self._seal(b"session", session)

    def open(self, cookie: str, now: float) -> WebSession | None:
        """The session in a cookie; None for one that is forged, broken or over."""
        return self._open(b"session", cookie, now, WebSession)

    def seal_flow(self, flow: Flow) -> str:
        """The same for a login with a provider that has begun."""
        return self._seal(b"flow", flow)

    def open_flow(self, cookie: str, now: float) -> Flow | None:
        return self._open(b"flow", cookie, now, Flow)

    def _seal(self, purpose: bytes, value: msgspec.Struct) -> str:
        body = _b64(msgspec.json.encode(value))
        return f"{body}.{_b64(self._mac(purpose, body.encode()))}"

    def _open(self, purpose: bytes, cookie: str, now: float, kind: type[S]) -> S | None:
        body, _, mac = cookie.partition(".")
        try:
            if not hmac.compare_digest(_unb64(mac), self._mac(purpose, body.encode())):
                return None
            found = msgspec.json.decode(_unb64(body), type=kind)
        except (ValueError, binascii.Error, msgspec.MsgspecError):
            return None
        return found if found.expires > now else None

    def csrf(self, session: WebSession) -> str:
        """The token that goes with a session."""
        return _b64(self._mac(b"csrf", msgspec.json.encode(session)))

    def is_csrf(self, session: WebSession, token: str) -> bool:
        """Whether `token` goes with the session."""
        return hmac.compare_digest(self.csrf(session).encode(), token.encode("utf-8", "surrogatepass"))

    def _mac(self, purpose: bytes, data: bytes) -> bytes:
        return hmac.digest(self.key, purpose + b"\0" + data, hashlib.sha256)


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _unb64(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
