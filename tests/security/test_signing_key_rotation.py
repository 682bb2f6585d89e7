"""A new key for what is signed: nobody is logged out, everybody accepts what anybody signs, and old keys end."""

from __future__ import annotations

import asyncpg
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.config import Settings, WebSettings
from aiosched.core.values.messages import AttemptKey
from aiosched.db.engines.tokens import TokenSigner
from aiosched.db.people import accounts, signing_keys
from aiosched.db.people.signing_keys import READ_AGAIN, SIGNS_LATER, PresentKeys, rotate_signing_key
from aiosched.db.server.engine import Database
from aiosched.web.app import make_app
from aiosched.web.auth.passwords import hash_password
from aiosched.web.auth.sessions import Signer, WebSession
from aiosched.web.requests.request_client import RequestClient
from tests.web.logins import PASSWORD, client_of, log_in

HOUR = 3600.0
SESSION = WebSession(1, "ann", "viewer", "the cookie")


async def keys_of(db: Database, *, accepted_for: float = 12 * HOUR) -> tuple[bytes, ...]:
    return await signing_keys.signing_keys(db, accepted_for=accepted_for)


async def let_pass(db: Database, seconds: float) -> None:
    """As if all keys had been made that much earlier."""
    await db.execute("UPDATE web_key SET signs_from = signs_from - make_interval(secs => $1)", seconds)


async def test_a_new_key_is_accepted_at_once_and_signs_later(db: Database) -> None:
    (first,) = await keys_of(db)

    await rotate_signing_key(db, requested_by="a test")
    soon = await keys_of(db)
    await let_pass(db, SIGNS_LATER + 1)
    later = await keys_of(db)

    assert soon[-1] == first
    assert len(soon) == 2
    assert later == (first, soon[0])


async def test_an_old_key_is_accepted_until_what_it_signed_is_over(db: Database) -> None:
    (first,) = await keys_of(db)
    await rotate_signing_key(db, requested_by="a test")

    await let_pass(db, SIGNS_LATER + 12 * HOUR - 60)
    before = await keys_of(db)
    await let_pass(db, 120)
    after = await keys_of(db)

    assert before[0] == first
    assert first not in after
    assert len(after) == 1


async def test_a_key_that_has_become_known_is_refused_at_once(db: Database) -> None:
    known = await keys_of(db)
    forged = Signer(known).csrf(SESSION)

    await rotate_signing_key(db, requested_by="a test", at_once=True)
    present = await keys_of(db)

    assert len(present) == 1
    assert present != known
    assert not Signer(present).is_csrf(SESSION, forged)


async def test_a_rotation_is_in_the_audit_log_without_the_key(db: Database) -> None:
    await rotate_signing_key(db, requested_by="ann")

    row = await db.fetchrow("SELECT verb, requested_by, args::text FROM request")
    assert tuple(row) == ("rotate_signing_key", "ann", '{"at_once":false}')


async def test_many_rotations_at_once_make_as_many_keys_and_the_newest_signs(db: Database) -> None:
    for _ in range(3):
        await rotate_signing_key(db, requested_by="a test")
        await let_pass(db, SIGNS_LATER + 1)

    found = await keys_of(db)

    assert len(set(found)) == 3
    assert found[-1] == await db.fetchval("SELECT key FROM web_key ORDER BY id DESC LIMIT 1")


KEYS = [bytes([number]) * 32 for number in range(5)]


@given(
    st.lists(st.floats(0, 500), min_size=1, max_size=4),
    st.floats(0, 600),
    st.floats(0, READ_AGAIN),
    st.floats(0, READ_AGAIN),
)
def test_everybody_accepts_what_anybody_signs(made: list[float], now: float, age: float, other_age: float) -> None:
    """Keys made at these seconds; two readers whose knowledge is at most a minute old."""

    def read_at(second: float) -> tuple[bytes, ...]:
        rows = [(0.0, KEYS[0]), *((at + SIGNS_LATER, KEYS[n]) for n, at in enumerate(sorted(made), 1) if at <= second)]
        later = [key for signs_from, key in rows if signs_from > second]
        return (*later, *(key for signs_from, key in rows if signs_from <= second))

    signer, verifier = read_at(now - age), read_at(now - other_age)

    assert not signer or not verifier or signer[-1] in verifier


# ---- what is signed ----


async def test_nobody_is_logged_out_by_a_new_key(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing_keys, "READ_AGAIN", 0.0)
    await accounts.create_user(db, "ann", "admin", await hash_password(PASSWORD))
    settings = Settings(web=WebSettings(auth="password"))
    one, other = (client_of(make_app(RequestClient(db, settings))) for _ in range(2))
    async with one, other:
        await log_in(one, "ann")
        for name in ("cookies", "headers"):
            setattr(other, name, getattr(one, name))

        await rotate_signing_key(db, requested_by="a test")
        soon = await change(other)
        await let_pass(db, SIGNS_LATER + 1)
        later = [await change(one), await change(other)]
        new_token = (await one.get("me")).json()["csrf"]
        one.headers["X-CSRF-Token"] = new_token

        assert [soon, *later, await change(one)] == [200] * 4
        assert new_token != other.headers["X-CSRF-Token"]

        await rotate_signing_key(db, requested_by="a test", at_once=True)
        assert await change(one) == 403  # the page has to be loaded again, but not the login
        one.headers["X-CSRF-Token"] = (await one.get("me")).json()["csrf"]
        assert await change(one) == 200


async def change(browser: httpx2.AsyncClient) -> int:
    return (await browser.put("pools/etl", json={"slots": 3})).status_code


def test_tokens_of_attempts_are_accepted_with_every_key_and_signed_with_the_last() -> None:
    key = AttemptKey(1, 2, -1, 1)
    old, both, new = TokenSigner(KEYS[:1]), TokenSigner(KEYS[:2]), TokenSigner(KEYS[1:2])

    assert both.open(old.seal(7, key)) == new.open(both.seal(7, key)) == (7, key)
    assert new.open(old.seal(7, key)) is None


async def test_keys_that_are_known_are_used_while_the_database_does_not_answer(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = iter([0.0, READ_AGAIN + 1, 2 * READ_AGAIN + 2])
    keys = PresentKeys(db, monotonic=lambda: next(seconds))
    known = await keys.get()

    async def gone(*_: object, **__: object) -> tuple[bytes, ...]:
        raise asyncpg.CannotConnectNowError("the database system is starting up")

    with monkeypatch.context() as patch:
        patch.setattr(signing_keys, "signing_keys", gone)
        assert await keys.get() == known
    await rotate_signing_key(db, requested_by="a test")
    assert len(await keys.get()) == 2
