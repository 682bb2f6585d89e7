"""Logging in with an identity provider: OpenID Connect, authorization code flow with PKCE (`aiosched[oidc]`).

A browser that begins a login gets a short signed cookie with the state, the nonce and the PKCE verifier, so that any
web server can finish what another began. The answer is accepted only with that cookie, a code that the provider
exchanges for an ID token, and an ID token that is signed with the provider's keys, issued for us, fresh, and has the
nonce. A person is the issuer and the subject of the token; the name is a label. The role comes from a claim at each
login; the user's row has no password. The ID token stays in a cookie of the browser, for the logout at the provider.

Source: OpenID Connect Core 1.0, section 3.1; RP-Initiated Logout 1.0; RFC 7636; RFC 9700.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import logging
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import msgspec

from aiosched.config import WebSettings
from aiosched.core.access.grants import GrantKind, RoleGrant
from aiosched.db.people.accounts import NAME_PATTERN
from aiosched.errors import ConfigError
from aiosched.web.server.ports import is_loopback
from aiosched.web.server.problems import Problem

logger: logging.Logger = logging.getLogger(__name__)

ROLES: Final = ("admin", "editor", "operator", "viewer")  # best first
FLOW_SECONDS: Final = 600
NO_ID_TOKEN: Final = "-"  # in the place of one that is too large for a cookie
_KEPT_SECONDS: Final = 3600.0
AGAIN_SECONDS: Final = 30.0  # before the keys are fetched again because of an unknown one
_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
_LEEWAY: Final = 60
_PATIENCE: Final = 10.0  # seconds for an answer of the provider
_MOST_BYTES: Final = 2**20  # of such an answer
_ENDPOINTS: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_LONGEST_SUBJECT: Final = 255  # characters, as OpenID Connect has it
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
    """Who logged in: the role everywhere (`none`: none), the grants of the groups, and the groups themselves.

    `subject` is what the provider never gives to anybody else; `name` is a label.
    """

    issuer: str
    subject: str
    name: str
    role: str
    id_token: str
    grants: tuple[RoleGrant, ...] = ()
    groups: frozenset[str] = frozenset()


def check_provider(settings: WebSettings) -> Mapping[str, frozenset[str]]:
    """The values of the claim that give each role. Raises ConfigError where a package or a setting is missing."""
    if not all(map(find_spec, ("httpx2", "joserfc"))):
        raise ConfigError("web.auth = 'oidc' needs two more packages: pip install 'aiosched[oidc]'.")
    if not settings.oidc_issuer or not settings.oidc_client_id:
        raise ConfigError("web.auth = 'oidc' needs web.oidc_issuer and web.oidc_client_id.")
    if not _is_protected(settings.oidc_issuer):
        raise ConfigError(
            f"web.oidc_issuer = {settings.oidc_issuer!r} must begin with https://: whoever is in between could log in "
            "as anybody otherwise. (http:// is for a provider at a loopback address.)"
        )
    return dict(_mapping(settings.oidc_roles))


class Provider:
    """The client of the provider; `transport` is httpx2's, for tests. Raises ConfigError as `check_provider` does."""

    def __init__(self, settings: WebSettings, *, transport: Any = None) -> None:
        self._roles = check_provider(settings)
        self._grants = grants_by_group(settings.oidc_grants)
        import httpx2

        self._settings = settings
        self._issuer, self._client = settings.oidc_issuer or "", settings.oidc_client_id or ""
        self._http = httpx2.AsyncClient(transport=transport, timeout=_PATIENCE, follow_redirects=False)
        self._errors = (httpx2.HTTPError, httpx2.InvalidURL, msgspec.MsgspecError, TimeoutError, RecursionError)
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
        return _with_query(str((await self._described())["authorization_endpoint"]), asked)

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
        claims = await self._claims(token, flow.nonce)
        role, grants, groups = self._rights(claims)
        return Identity(self._issuer, _subject(claims), self._name(claims), role, token, grants, groups)

    async def logout_address(self, id_token: str, back: str) -> str | None:
        """Where a browser logs out at the provider, which sends it `back`; None without such an address."""
        try:
            endpoint = (await self._described()).get("end_session_endpoint")
        except Problem as problem:
            logger.warning("the logout is only ours: %s", problem.detail)
            return None
        if not isinstance(endpoint, str):
            return None
        asked = {"client_id": self._client, "post_logout_redirect_uri": back}
        if id_token != NO_ID_TOKEN:
            asked["id_token_hint"] = id_token
        return _with_query(endpoint, asked)

    def _name(self, claims: Mapping[str, Any]) -> str:
        name = claims.get(self._settings.oidc_name_claim)
        if self._settings.oidc_name_claim == "email" and claims.get("email_verified") is False:
            raise Problem(403, "not-invited", "The identity provider has not verified this address.")
        if not isinstance(name, str) or not re.match(NAME_PATTERN, name) or name.endswith("\n"):
            claim = self._settings.oidc_name_claim
            raise Problem(
                403, "not-invited", f"The identity provider sends no usable name as {claim!r} (web.oidc_name_claim)."
            )
        return name

    def _rights(self, claims: Mapping[str, Any]) -> tuple[str, tuple[RoleGrant, ...], frozenset[str]]:
        """The role everywhere, the grants and the groups. Raises Problem for somebody who has none."""
        values = _texts(claims, self._settings.oidc_role_claim)
        grants = {grant: None for group in sorted(values) for grant in self._grants.get(group, ())}
        best = (role for role in ROLES if values & self._roles.get(role, frozenset()))
        role = next(best, self._settings.oidc_default_role or ("none" if grants else None))
        if role is None:
            raise Problem(
                403, "not-invited", f"{self._name(claims)} has no role here (web.oidc_roles, web.oidc_grants)."
            )
        return role, _highest(grants), values

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
        except (JoseError, ValueError, TypeError, RecursionError) as error:
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
            missing = set(_ENDPOINTS) - found.keys()
            if missing:
                raise _unbelieved(f"it has no {', '.join(sorted(missing))}")
            for name in (*_ENDPOINTS, "end_session_endpoint"):
                if name in found and not _is_protected(str(found[name])):
                    raise _unbelieved(f"its {name} does not begin with https://")
            self._metadata = time.monotonic() + _KEPT_SECONDS, found
        return self._metadata[1]

    async def _keyset(self, *, refresh: bool = False) -> Any:
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        now = time.monotonic()
        fetched = None if self._keys is None else self._keys[0]
        if self._keys is None or fetched is None or now - fetched > (AGAIN_SECONDS if refresh else _KEPT_SECONDS):
            document = await self._ask("GET", str((await self._described())["jwks_uri"]))
            try:
                self._keys = now, KeySet.import_key_set(document)  # type: ignore[arg-type]
            except (JoseError, ValueError, TypeError, KeyError, AttributeError) as error:
                raise _unbelieved(f"its keys cannot be read ({type(error).__name__})") from None
        return self._keys[1]

    async def _ask(self, method: str, url: str, **options: Any) -> dict[str, Any]:
        try:
            async with asyncio.timeout(_PATIENCE):
                status, content = await self._fetch(method, url, options)
            found = msgspec.json.decode(content, type=dict[str, Any]) if status < 500 else {}
        except self._errors as error:
            raise _unreachable(error) from None
        if status != 200:
            raise _unbelieved(str(found.get("error_description") or found.get("error") or status))
        return found

    async def _fetch(self, method: str, url: str, options: Mapping[str, Any]) -> tuple[int, bytes]:
        """The status of an answer and its bytes, as they are sent: nothing is unpacked."""
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        content = bytearray()
        async with self._http.stream(method, url, headers=headers, **options) as answer:
            if "content-encoding" in answer.headers:
                raise _unbelieved("its answer is packed")
            async for part in answer.aiter_bytes():
                content += part
                if len(content) > _MOST_BYTES:
                    raise _unbelieved(f"its answer has more than {_MOST_BYTES:,} bytes")
        return answer.status_code, bytes(content)


def _is_protected(address: str) -> bool:
    """Whether nobody on the way can read or change what is sent there."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))


def _with_query(endpoint: str, asked: Mapping[str, str]) -> str:
    return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(asked)}"


def _subject(claims: Mapping[str, Any]) -> str:
    subject = claims["sub"]
    if not isinstance(subject, str) or not 0 < len(subject) <= _LONGEST_SUBJECT or not subject.isprintable():
        raise _unbelieved("its ID token has no usable claim 'sub'")
    return subject


def _texts(claims: Mapping[str, Any], claim: str) -> frozenset[str]:
    """The text or texts in a claim, whose dots lead into objects; none without it. Raises Problem for anything else."""
    value: Any = claims
    for part in claim.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    values = [value] if isinstance(value, str) else value
    if values is None:
        return frozenset()
    if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        raise Problem(
            403,
            "not-invited",
            f"The identity provider sends {claim!r} (web.oidc_role_claim) as {type(value).__name__}: it must be a text "
            "or a list of texts.",
        )
    return frozenset(values)


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
