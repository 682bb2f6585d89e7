"""An identity provider for tests, asked over a transport of httpx2."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx2
from joserfc import jwt
from joserfc.jwk import RSAKey

from aiosched.config import WebSettings

ISSUER = "https://id.example"
SETTINGS = WebSettings(
    auth="oidc",
    oidc_issuer=ISSUER,
    oidc_client_id="aiosched",
    oidc_client_secret="s3cret",
    oidc_roles="admin=ops|leads, viewer=staff",
)
KEY = RSAKey.generate_key(2048, {"kid": "one"})
Change = Callable[[dict[str, Any]], Any]


@dataclass
class FakeProvider:
    """A provider with one person, who always agrees. `change` spoils the claims of the next token."""

    page: str = f"{ISSUER}/authorization"  # where the browser logs in
    groups: list[str] = field(default_factory=lambda: ["ops"])
    change: Change = lambda claims: None
    key: Any = field(default_factory=lambda: KEY)
    published: Any = field(default_factory=lambda: KEY)
    algorithm: str = "RS256"
    kid: str = "one"
    down: bool = False
    more: dict[str, Any] = field(default_factory=dict)  # in its description of itself
    keys: Any = None  # instead of the published one
    asked: dict[str, str] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    fetched: int = 0

    def agree(self, address: str) -> dict[str, str]:
        """What the browser brings back from the page at `address`."""
        self.asked = dict(parse_qsl(urlsplit(address).query))
        self.codes["c0de"] = self.asked
        return {"state": self.asked["state"], "code": "c0de"}

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        if self.down:
            raise httpx2.ConnectError("no route")
        if request.url.path == "/.well-known/openid-configuration":
            ends = {"authorization_endpoint": self.page, "token_endpoint": f"{ISSUER}/token"}
            told = {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/keys", **ends, **self.more}
            return httpx2.Response(200, json=told)
        if request.url.path == "/keys":
            self.fetched += 1
            return httpx2.Response(200, json=self.keys or {"keys": [self.published.as_dict(private=False)]})
        form = {name: values[0] for name, values in parse_qs(request.content.decode()).items()}
        begun = self.codes.pop(form["code"], None)
        challenge = (
            base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).decode().rstrip("=")
        )
        if begun is None or challenge != begun["code_challenge"] or form["client_secret"] != "s3cret":
            return httpx2.Response(400, json={"error": "invalid_grant"})
        now = int(time.time())
        claims: dict[str, Any] = {
            "iss": ISSUER, "aud": "aiosched", "sub": "1", "iat": now, "exp": now + 300, "nonce": begun["nonce"],
            "preferred_username": "ann", "groups": self.groups,
        }  # fmt: skip
        self.change(claims)
        token = jwt.encode({"alg": self.algorithm, "kid": self.kid}, claims, self.key, algorithms=[self.algorithm])
        return httpx2.Response(200, json={"id_token": token, "access_token": "x", "token_type": "Bearer"})
