"""Guessing passwords: slowed down, for all web servers together, without locking anybody else out."""

from __future__ import annotations

from collections.abc import Mapping

import httpx2
import pytest
from fastapi import FastAPI

from aiosched.config import Settings, WebSettings
from aiosched.db.people import login_failures
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.web.app import make_app
from aiosched.web.auth.login_limits import counters_of
from aiosched.web.requests.request_client import RequestClient
from tests.patience import PATIENCE
from tests.web.logins import client_of, log_in


@pytest.fixture(autouse=True)
def _waits_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the first, of a second, may be over before a busy machine asks again."""
    delay = login_failures.delay

    async def longer(conn: DatabaseConnection, waits: Mapping[str, float]) -> None:
        await delay(conn, {key: seconds * PATIENCE for key, seconds in waits.items()})

    monkeypatch.setattr(login_failures, "delay", longer)


async def test_guessing_is_slowed_down(browser: httpx2.AsyncClient) -> None:
    answers = [(await log_in(browser, "viewer", "guess")).status_code for _ in range(6)]
    right = await log_in(browser, "viewer")

    assert answers == [401] * 5 + [429]
    assert right.status_code == 429
    assert int(right.headers["Retry-After"]) >= 1
    assert (await log_in(browser, "operator")).status_code == 200


async def test_web_servers_count_together(db: Database, guarded: FastAPI) -> None:
    other = make_app(RequestClient(db, Settings(web=WebSettings(auth="password"))))
    async with client_of(guarded) as first, client_of(other) as second:
        answers = [(await log_in(each, "viewer", "guess")).status_code for each in (first, second) * 3]

    assert answers == [401] * 5 + [429]


async def test_wrong_logins_with_invented_names_lock_nobody_out(browser: httpx2.AsyncClient) -> None:
    """All of an office come from one address."""
    for number in range(40):
        assert (await log_in(browser, f"nobody{number}", "guess")).status_code == 401

    assert (await log_in(browser, "viewer")).status_code == 200


async def test_a_browser_that_is_known_is_not_locked_out_by_others(guarded: FastAPI) -> None:
    async with client_of(guarded) as known, client_of(guarded) as stranger:
        await log_in(known, "viewer")
        await known.post("logout")
        for _ in range(6):
            await log_in(stranger, "viewer", "guess")

        assert (await log_in(stranger, "viewer")).status_code == 429
        assert (await log_in(known, "viewer")).status_code == 200
        assert (await log_in(known, "operator", "guess")).status_code == 401  # known for its own user only
        answers = [(await log_in(known, "viewer", "guess")).status_code for _ in range(11)]
    assert answers == [401] * 10 + [429]


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 0.0), (4, 0.0), (5, 1.0), (6, 2.0), (9, 16.0), (15, 900.0), (10**6, 900.0)]
)
def test_each_failure_over_the_limit_doubles_the_wait(failures: int, seconds: float) -> None:
    assert counters_of("ann", "192.0.2.1")[0].wait(failures) == seconds


def test_a_network_of_ipv6_is_one_address() -> None:
    pair, name, address = counters_of("ann", "2001:db8::1")

    assert [each.key for each in counters_of("ann", "2001:db8::ffff:2")] == [pair.key, name.key, address.key]
    other = [each.key for each in counters_of("ann", "2001:db8:0:1::1")]
    assert (other[0] != pair.key, other[1] == name.key, other[2] != address.key) == (True, True, True)
    assert {each.key for each in counters_of("bob", "2001:db8::1")} & {pair.key, name.key} == set()


async def test_an_untrusted_proxy_is_suspected(guarded: FastAPI, caplog: pytest.LogCaptureFixture) -> None:
    transport = httpx2.ASGITransport(app=guarded, client=("10.1.2.3", 1))
    async with httpx2.AsyncClient(transport=transport, base_url="https://aiosched.example/api/v1/") as browser:
        for _ in range(7):
            await log_in(browser, "viewer", "guess")

    said = [record.getMessage() for record in caplog.records if "web.trusted_proxies" in record.getMessage()]
    assert len(said) == 1
    assert said[0].startswith("all logins come from 10.1.2.3: ")


async def test_what_failed_long_ago_is_forgotten(db: Database, browser: httpx2.AsyncClient) -> None:
    for _ in range(6):
        await log_in(browser, "viewer", "guess")
    past = "now() - interval '25 hours'"
    await db.execute(f"UPDATE login_failure SET last_at = {past}, until = {past}")

    assert (await log_in(browser, "operator", "guess")).status_code == 401
    assert await db.fetchval("SELECT max(failures) FROM login_failure") == 1
