"""Logging in: by password or a one-time token and session cookie for people, by token for programs.

Here: who is behind a request, the login itself and its rate limit. Elsewhere: hashes (passwords.py), cookies
(cookies.py) and what they hold (sessions.py), rows (db/people/).
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from fastapi import Request
from fastapi.responses import Response

from aiosched.config import WebSettings
from aiosched.core.access.grants import RoleGrant, readable
from aiosched.core.access.rights import PersonRights
from aiosched.core.access.roles import Role
from aiosched.core.audit.actor import act_for, actor
from aiosched.core.audit.kinds import AuditKind, Result
from aiosched.db.access.grants import HeldRights
from aiosched.db.audit.entries import NewEntry
from aiosched.db.audit.repeated import record_repeated
from aiosched.db.people import accounts, identities, local_logins, login_failures, web_sessions
from aiosched.db.people.signing_keys import PresentKeys
from aiosched.db.server.engine import Database
from aiosched.errors import NotFound, Refused
from aiosched.logs import writes_json
from aiosched.web.auth import cookies
from aiosched.web.auth.access import Principal, role_of
from aiosched.web.auth.cookies import give_cookie, read_cookie, take_cookie
from aiosched.web.auth.login_limits import LoginCounter, counters_of, is_one_proxy
from aiosched.web.auth.oidc import FLOW_SECONDS, NO_ID_TOKEN, Flow, Identity
from aiosched.web.auth.passwords import check_password, hash_password, hash_token, verify_password
from aiosched.web.auth.sessions import CSRF_HEADER, Signer, WebSession
from aiosched.web.server.problems import Problem

logger: logging.Logger = logging.getLogger(__name__)

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
REMEMBERED_SECONDS: Final = 5.0  # seconds for which the owner of a session is cached
_REMEMBERED: Final = 10_000  # such owners
_DEVICE_SECONDS: Final = 365 * 24 * 3600.0
_LONGEST_ID: Final = 3500  # characters of an ID token in a cookie: browsers keep 4,096 with its name
_LONGEST_AGENT: Final = 200  # characters of what a browser calls itself
_LONGEST_NAME: Final = 100  # characters of a refused name


class Accounts:
    """The `Authenticator` for `web.auth = "password"` and `"oidc"`, and for one-time tokens at a loopback address.

    `local`: the latter, so that there is a user `local`, and no other login.
    """

    def __init__(self, db: Database, settings: WebSettings, *, local: bool = False) -> None:
        self._db = db
        self._settings = settings
        self.is_local = local
        self.idle_seconds: float = settings.session_idle_hours * 3600
        self._seconds = settings.session_hours * 3600
        if local:
            self._seconds = self.idle_seconds = local_logins.SESSION_SECONDS
        self._signer: Signer | None = None
        self._mark: str | None = None
        self._keys = PresentKeys(db, accepted_for=self._seconds)
        self._known: OrderedDict[str, tuple[float, web_sessions.SessionOwner | None]] = OrderedDict()
        self._addresses: set[str] = set()  # of the first logins, two at most
        self._has_warned = False

    async def start(self) -> None:
        """Create the first user: `local`, or `admin` with the password of the settings or a random one.

        That one is logged, once; unless the log is in JSON, which is kept and read by others.
        """
        if self.is_local:
            await local_logins.make_local_user(self._db)
            return
        password = self._settings.admin_password
        if not password and self._settings.auth != "password":
            return
        if await accounts.count_people(self._db):
            return
        chosen = password or secrets.token_urlsafe(12)
        check_password(chosen)
        try:
            await accounts.create_user(self._db, "admin", "admin", await hash_password(chosen))
        except Refused:  # another web server of this database was faster
            return
        if not password and writes_json():
            logger.warning("the first user is admin; give it a password that you know: aiosched users password admin")
        elif not password:
            logger.warning(
                "the first user is admin, with the password %s; change it with aiosched users password admin", chosen
            )

    async def __call__(self, request: Request) -> Principal | None:
        authorization = request.headers.get("authorization", "")
        if authorization:
            return await self._by_token(authorization, request.method)
        session = await self.session(request)
        if session is None:
            return None
        if request.method not in _SAFE:
            signer = await self._sign()
            if not signer.is_csrf(session, request.headers.get(CSRF_HEADER, "")):
                raise Problem(403, "csrf", f"Send the token that GET /api/v1/me returns as {CSRF_HEADER}.")
        return Principal.with_rights(session.name, session.rights, session=session.id)

    async def log_in(self, request: Request, name: str, password: str) -> tuple[Principal, WebSession]:
        """Check a password and start a session. Raises as `check`."""
        login = await self.check(request, name, password)
        session = await self._begin(request, login)
        return Principal.with_rights(login.name, session.rights, session=session.id), session

    async def log_in_by_link(self, request: Request, token: str) -> tuple[Principal, WebSession]:
        """Start a session of the user `local` with a one-time token. Raises Problem 401 for a used or old one."""
        if not await local_logins.use_link(self._db, hash_token(token)):
            await self.note_refusal(local_logins.LOCAL, "wrong-login")
            raise Problem(
                401,
                "wrong-login",
                "This address was used already, or is older than a day. For another: aiosched web address",
            )
        await local_logins.make_local_user(self._db)  # it may have been deleted since the start
        login = await accounts.read_login(self._db, local_logins.LOCAL)
        assert login is not None
        session = await self._begin(request, login)
        return Principal.with_rights(login.name, session.rights, session=session.id), session

    async def check(self, request: Request, name: str, password: str) -> accounts.Login:
        """The user with this password. Raises Problem 401, or 429 after too many failures."""
        counters = await self._counters(request, name)
        if wait := await login_failures.seconds_to_wait(self._db, [counter.key for counter in counters]):
            await self.note_refusal(name, "too-many-logins")
            raise Problem(
                429, "too-many-logins", f"Too many failed logins: wait {wait} s.", headers={"Retry-After": str(wait)}
            )
        await self._count(request, counters)  # before the slow check, so that concurrent logins cannot evade the limit
        login = await accounts.read_login(self._db, name) if "\0" not in name else None
        is_right = await verify_password(password, None if login is None else login.password)
        if login is None or login.is_disabled or not is_right:
            await self.note_refusal(name, "wrong-login")
            raise Problem(401, "wrong-login", "Wrong name or password.")
        await login_failures.forgive(self._db, [counter.key for counter in counters if counter.is_forgiven])
        return login

    async def note_refusal(self, name: str | None, code: str) -> None:
        """Leave an entry in the audit log: a login as `name` was refused."""
        name = None if name is None else _printable(name)[:_LONGEST_NAME]
        entry = NewEntry(AuditKind.LOGIN_REFUSED, name, result=Result.REFUSED, detail={"code": code})
        await record_repeated(self._db, entry)

    async def _counters(self, request: Request, name: str) -> Sequence[LoginCounter]:
        address = request.client.host if request.client else "?"
        if len(self._addresses) < 2:
            self._addresses.add(address)
        cookie = read_cookie(request, cookies.DEVICE)
        device = None if cookie is None else (await self._sign()).open_device(cookie, name)
        return counters_of(name, address, device)

    async def _count(self, request: Request, counters: Sequence[LoginCounter]) -> None:
        async with self._db.transaction() as conn:
            failures = await login_failures.count(conn, [counter.key for counter in counters])
            waits = {each.key: each.wait(failures[each.key]) for each in counters}
            await login_failures.delay(conn, waits)
        addresses = [*self._addresses]
        is_proxy = is_one_proxy(addresses) or "x-forwarded-for" in request.headers
        if any(waits.values()) and not self._has_warned and is_proxy:
            self._has_warned = True
            logger.warning(
                "all logins come from %s: if that is a proxy, name it in web.trusted_proxies, since failed logins "
                "count for an address",
                addresses[0],
            )

    async def admit(self, request: Request, identity: Identity) -> WebSession:
        """Start a session for a user whom the identity provider has authenticated. Raises Refused; Problem 403 for a
        disabled user."""
        who = identities.ProvidedIdentity(identity.issuer, identity.subject)
        held = identities.ProvidedRights(identity.role, identity.grants, identity.groups)
        return await self._begin(request, await identities.admit(self._db, who, identity.name, held))

    async def _begin(self, request: Request, login: accounts.Login) -> WebSession:
        token = secrets.token_urlsafe(32)
        found = await web_sessions.start_session(
            self._db,
            login.name,
            hash_token(token),
            seconds=self._seconds,
            address=request.client.host if request.client else "",
            agent=_printable(request.headers.get("user-agent", ""))[:_LONGEST_AGENT],
        )
        if found is None:
            raise Problem(403, "not-invited", f"{login.name} has been disabled.")
        return WebSession(found, login.name, rights_of(login.held), token)

    async def end(self, session: WebSession) -> None:
        """Log out: the session ends on all web servers, within seconds."""
        self._known.pop(hash_token(session.token), None)
        act_for(replace(actor(), who=f"api:{session.name}", session=session.id))
        with contextlib.suppress(NotFound):
            await web_sessions.end_session(self._db, session.id, session.name, kind=AuditKind.LOGOUT)

    async def give_flow(self, request: Request, response: Response, flow: Flow) -> None:
        """Set the cookie of a login that has begun at the identity provider."""
        give_cookie(request, response, cookies.FLOW, (await self._sign()).seal_flow(flow), FLOW_SECONDS)

    async def flow(self, request: Request) -> Flow | None:
        """The login that the browser has begun; None without one, or if it has expired or is forged."""
        cookie = read_cookie(request, cookies.FLOW)
        return None if cookie is None else (await self._sign()).open_flow(cookie, time.time())

    def take_flow(self, request: Request, response: Response) -> None:
        """Delete the cookie of the begun login."""
        take_cookie(request, response, cookies.FLOW)

    async def give_session(self, request: Request, response: Response, session: WebSession) -> None:
        """Set the session cookie, and the one by which this browser is known again if somebody guesses passwords."""
        if read_cookie(request, cookies.ID) is not None:  # of a login before
            take_cookie(request, response, cookies.ID)
        give_cookie(request, response, await self._cookie(), session.token, self._seconds)
        if not self.is_local:
            sealed = (await self._sign()).seal_device(session.name)
            give_cookie(request, response, cookies.DEVICE, sealed, _DEVICE_SECONDS)

    def give_id_token(self, request: Request, response: Response, id_token: str) -> None:
        """Keep the ID token in the browser, for the logout at the provider; only a mark if it is too large."""
        kept = id_token if len(id_token) <= _LONGEST_ID else NO_ID_TOKEN
        give_cookie(request, response, cookies.ID, kept, self._seconds)

    async def take_session(self, request: Request, response: Response) -> None:
        """Delete the session cookie, and the ID token."""
        for name in (await self._cookie(), cookies.ID):
            take_cookie(request, response, name)

    async def session(self, request: Request) -> WebSession | None:
        """The session of a request; None without one, or if it is over."""
        token = read_cookie(request, await self._cookie())
        owner = None if token is None else await self._owner(hash_token(token))
        return (
            None if token is None or owner is None else WebSession(owner.id, owner.name, rights_of(owner.held), token)
        )

    async def csrf(self, session: WebSession) -> str:
        """The token that requests that change something must send."""
        return (await self._sign()).csrf(session)

    async def _cookie(self) -> str:
        """The name of the session's cookie. Browsers do not tell ports apart: each database of this machine has its
        own."""
        if not self.is_local:
            return cookies.SESSION
        if self._mark is None:
            self._mark = await local_logins.mark_of(self._db)
        return f"{cookies.SESSION}_{self._mark}"

    async def _by_token(self, authorization: str, method: str) -> Principal:
        kind, _, token = authorization.partition(" ")
        days, found = self._settings.oidc_token_days, None
        if kind.lower() == "bearer":
            hashed = hash_token(token.strip())
            found = await accounts.use_token(self._db, hashed, days_without_login=days, local=self.is_local)
        if found is None:
            raise Problem(401, "wrong-token", "This token is unknown, expired, or its owner is disabled.")
        if found.read_only and method not in _SAFE:
            raise Problem(403, "read-only-token", "This token only reads: create another one to change something.")
        limits = None if found.limits is None else readable(found.limits)
        rights = rights_of(found.held, limits=limits, highest=role_of(found.role))
        return Principal.with_rights(found.owner, rights, token=found.id)

    async def _owner(self, token_hash: str) -> web_sessions.SessionOwner | None:
        now = time.monotonic()
        known = self._known.get(token_hash)
        if known is None or known[0] < now:
            owner = await web_sessions.find_session(
                self._db, token_hash, idle_seconds=self.idle_seconds, local=self.is_local
            )
            self._known[token_hash] = known = now + REMEMBERED_SECONDS, owner
            self._known.move_to_end(token_hash)
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return known[1]

    async def _sign(self) -> Signer:
        keys = await self._keys.get()
        if self._signer is None or self._signer.keys != keys:
            self._signer = Signer(keys)
        return self._signer


def rights_of(
    held: HeldRights, *, limits: tuple[RoleGrant, ...] | None = None, highest: Role = Role.ADMIN
) -> PersonRights:
    """What a user may do. Raises Problem 403 for a role that only a newer version knows."""
    everywhere = role_of(held.role)
    own = () if everywhere is Role.NONE else (RoleGrant(everywhere),)
    return PersonRights((*own, *readable(held.grants)), frozenset(held.groups), limits, highest)


def _printable(text: str) -> str:
    return "".join(character for character in text if character.isprintable())
