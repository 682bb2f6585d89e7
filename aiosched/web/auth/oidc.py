"""Logging in with an identity provider: OpenID Connect, authorization code flow with PKCE (`aiosched[oidc]`).

A browser that begins a login gets a short signed cookie with the state, the nonce and the PKCE verifier, so that any
web server can finish what another began. The answer is accepted only with that cookie, a code that the provider
exchanges for an ID token, and an ID token that is signed with the provider's keys, issued for us, fresh, and has the
nonce. The role comes from a claim at each login; the user's row has no password.

Source: OpenID Connect Core 1.0, section 3.1; RFC 7636; RFC 9700.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from aiosched.config import WebSettings
from aiosched.core.access.grants import GrantKind, RoleGrant
from aiosched.db.people.accounts import NAME_PATTERN
from aiosched.errors import ConfigError
from aiosched.web.server.problems import Problem

ROLES: Final = ("admin", "editor", "operator", "viewer")  # best first
COOKIE: Final = "aiosched_login"
FLOW_SECONDS: Final = 600
_KEPT_SECONDS: Final = 3600.0
_AGAIN_SECONDS: Final = 30.0  # before the keys are fetched again because of an unknown one
_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
_LEEWAY: Final = 60
_PATH: Final = re.compile(r"^[A-Za-z0-9_.~%:@!$&'()*+,;=-][A-Za-z0-9_.~%:@!$&'()*+,;=/?-]*$")


class Flow(msgspec.Struct, frozen=True, array_like=True):
    """A login that a browser has begun: `back` is the page to return to, relative to ours."""

    state: str
    nonce: str
    verifier: str
    expires: int
    back: str

    @classmethod
    def begin(cls, back: str) -> Flow:
        """A new flow; `back` is dropped if it could lead to another site."""
        fits = len(back) <= 500 and _PATH.match(back) and "//" not in back and "%5c" not in back.lower()
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        return cls(state, nonce, verifier, int(time.time()) + FLOW_SECONDS, back if fits else "")

    @property
    def challenge(self) -> str:
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class Identity:
    """Who logged in, the role everywhere (`none`: none), the grants of the groups, and the groups themselves."""

    name: str
    role: str
    grants: tuple[RoleGrant, ...] = ()
    groups: frozenset[str] = frozenset()


def check_provider(settings: WebSettings) -> Mapping[str, frozenset[str]]:
    """The values of the claim that give each role. Raises ConfigError where a package or a setting is missing."""
    if not all(map(find_spec, ("httpx2", "joserfc"))):
        raise ConfigError("web.auth = 'oidc' needs two more packages: pip install 'aiosched[oidc]'.")
    if not settings.oidc_issuer or not settings.oidc_client_id:
        raise ConfigError("web.auth = 'oidc' needs web.oidc_issuer and web.oidc_client_id.")
    return dict(_mapping(settings.oidc_roles))


class Provider:
    """The client of the provider; `transport` is httpx2's, for tests. Raises ConfigError as `check_provider` does."""

    def __init__(self, settings: WebSettings, *, transport: Any = None) -> None:
        self._roles = check_provider(settings)
        self._grants = grants_by_group(settings.oidc_grants)
        import httpx2

        self._settings = settings
        self._issuer, self._client = settings.oidc_issuer or "", settings.oidc_client_id or ""
        self._http = httpx2.AsyncClient(transport=transport, timeout=10.0, follow_redirects=False)
        self._errors = (httpx2.HTTPError, httpx2.InvalidURL, msgspec.MsgspecError)
        self._metadata: tuple[float, dict[str, Any]] | None = None
        self._keys: tuple[float, Any] | None = None

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def address(self, flow: Flow, redirect_uri: str) -> str:
        """The address at the provider where the browser logs in."""
        asked = {
            "response_type": "code",
            "client_id": self._client,
            "redirect_uri": redirect_uri,
            "scope": self._settings.oidc_scopes,
            "state": flow.state,
            "nonce": flow.nonce,
            "code_challenge": flow.challenge,
            "code_challenge_method": "S256",
        }
        endpoint = str((await self._described())["authorization_endpoint"])
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(asked)}"

    async def identify(self, flow: Flow, state: str, code: str, redirect_uri: str) -> Identity:
        """The user who returns with `state` and `code`. Raises Problem for an invalid answer, and for a user without
        access."""
        if not hmac.compare_digest(flow.state.encode(), state.encode("utf-8", "surrogatepass")):
            raise Problem(400, "login-expired", "This login was started elsewhere: log in again.")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "client_id": self._client,
            "code_verifier": flow.verifier,
        }
        if self._settings.oidc_client_secret:
            form["client_secret"] = self._settings.oidc_client_secret
        endpoint = str((await self._described())["token_endpoint"])
        token = (await self._ask("POST", endpoint, data=form)).get("id_token")
        if not isinstance(token, str):
            raise _unbelieved("it sent no ID token")
        return self._identity(await self._claims(token, flow.nonce))

    def _identity(self, claims: Mapping[str, Any]) -> Identity:
        name = claims.get(self._settings.oidc_name_claim)
        if self._settings.oidc_name_claim == "email" and claims.get("email_verified") is False:
            raise Problem(403, "not-invited", "The identity provider has not verified this address.")
        if not isinstance(name, str) or not re.match(NAME_PATTERN, name) or name.endswith("\n"):
            claim = self._settings.oidc_name_claim
            raise Problem(
                403, "not-invited", f"The identity provider sends no usable name as {claim!r} (web.oidc_name_claim)."
            )
        value: Any = claims
        for part in self._settings.oidc_role_claim.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        values = {value} if isinstance(value, str) else {one for one in value or () if isinstance(one, str)}
        grants = {grant: None for group in sorted(values) for grant in self._grants.get(group, ())}
        best = (role for role in ROLES if values & self._roles.get(role, frozenset()))
        role = next(best, self._settings.oidc_default_role or ("none" if grants else None))
        if role is None:
            raise Problem(403, "not-invited", f"{name} has no role here (web.oidc_roles, web.oidc_grants).")
        return Identity(name, role, _highest(grants), frozenset(values))

    async def _claims(self, token: str, nonce: str) -> Mapping[str, Any]:
        from joserfc import jwt
        from joserfc.errors import JoseError

        registry = jwt.JWTClaimsRegistry(
            leeway=_LEEWAY,
            iss={"essential": True, "value": self._issuer},
            aud={"essential": True, "value": self._client},
            exp={"essential": True},
            iat={"essential": True},
            sub={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        try:
            try:
                decoded = jwt.decode(token, await self._keyset(), algorithms=_ALGORITHMS)
            except (JoseError, ValueError):
                decoded = jwt.decode(token, await self._keyset(refresh=True), algorithms=_ALGORITHMS)
            registry.validate(decoded.claims)
        except (JoseError, ValueError) as error:
            raise _unbelieved(f"its ID token is not valid ({error})") from None
        claims: Mapping[str, Any] = decoded.claims
        audience = claims["aud"]
        if isinstance(audience, list) and len(audience) > 1 and claims.get("azp") != self._client:
            raise _unbelieved("its ID token was issued for another client")
        return claims

    async def _described(self) -> dict[str, Any]:
        if self._metadata is None or self._metadata[0] < time.monotonic():
            found = await self._ask("GET", f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
            if found.get("issuer") != self._issuer:
                raise _unbelieved(f"it calls itself {found.get('issuer')!r}, not {self._issuer!r}")
            missing = {"authorization_endpoint", "token_endpoint", "jwks_uri"} - found.keys()
            if missing:
                raise _unbelieved(f"it has no {', '.join(sorted(missing))}")
            self._metadata = time.monotonic() + _KEPT_SECONDS, found
        return self._metadata[1]

    async def _keyset(self, *, refresh: bool = False) -> Any:
        from joserfc.jwk import KeySet

        now = time.monotonic()
        fetched = None if self._keys is None else self._keys[0]
        if self._keys is None or fetched is None or now - fetched > (_AGAIN_SECONDS if refresh else _KEPT_SECONDS):
            document = await self._ask("GET", str((await self._described())["jwks_uri"]))
            self._keys = now, KeySet.import_key_set(document)  # type: ignore[arg-type]
        return self._keys[1]

    async def _ask(self, method: str, url: str, **options: Any) -> dict[str, Any]:
        try:
            answer = await self._http.request(method, url, headers={"Accept": "application/json"}, **options)
            found = msgspec.json.decode(answer.content, type=dict[str, Any]) if answer.status_code < 500 else {}
        except self._errors as error:
            raise _unreachable(error) from None
        if answer.status_code != 200:
            raise _unbelieved(str(found.get("error_description") or found.get("error") or answer.status_code))
        return found


def grants_by_group(text: str) -> Mapping[str, tuple[RoleGrant, ...]]:
    """`sales=viewer@team:sales|operator@tag:etl, ops=operator@dags:*` as grants by group. Raises ConfigError."""
    found: dict[str, tuple[RoleGrant, ...]] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        group, _, grants = part.partition("=")
        if not group.strip() or not grants.strip():
            raise ConfigError(f"web.oidc_grants has {part!r}; write GROUP=viewer@team:NAME|operator@tag:NAME.")
        found[group.strip()] = tuple(map(RoleGrant.parse, grants.split("|")))
    return found


def _highest(grants: Iterable[RoleGrant]) -> tuple[RoleGrant, ...]:
    """The grants with the highest role for each place."""
    best: dict[tuple[GrantKind, str], RoleGrant] = {}
    for grant in grants:
        known = best.setdefault((grant.kind, grant.name), grant)
        if known.role < grant.role:
            best[grant.kind, grant.name] = grant
    return tuple(best.values())


def _mapping(text: str) -> Iterator[tuple[str, frozenset[str]]]:
    """`admin=ops|leads, viewer=staff` as roles and the values of the claim that give them."""
    for part in filter(None, (part.strip() for part in text.split(","))):
        role, _, values = part.partition("=")
        if role.strip() not in ROLES or not values.strip():
            raise ConfigError(
                f"web.oidc_roles has {part!r}; write admin=VALUE|VALUE, editor=VALUE, operator=VALUE, viewer=VALUE."
            )
        yield role.strip(), frozenset(value.strip() for value in values.split("|"))


def _unbelieved(why: str) -> Problem:
    return Problem(502, "provider", f"The identity provider did not answer as expected: {why[:300]}.")


def _unreachable(error: Exception) -> Problem:
    return Problem(502, "provider", f"The identity provider cannot be reached: {type(error).__name__}.")
