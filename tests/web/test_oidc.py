"""Logging in with a provider: what it says is believed only whole, fresh, signed and asked for by this browser."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from fastapi import FastAPI
from joserfc.jwk import OctKey, RSAKey

from aiosched.config import ConfigError, Settings, WebSettings
from aiosched.db.people import accounts, identities
from aiosched.db.server.engine import Database
from aiosched.errors import Refused
from aiosched.web.app import make_app
from aiosched.web.auth import cookies
from aiosched.web.auth.accounts import Accounts
from aiosched.web.auth.oidc import Flow, Provider, check_provider
from aiosched.web.auth.passwords import hash_password
from aiosched.web.requests.request_client import RequestClient
from tests.web.provider import ISSUER, SETTINGS, Change, FakeProvider

FLOW, SESSION, ID = (
    cookies.sent_name(name, tls=True, prefix="/flows") for name in (cookies.FLOW, cookies.SESSION, cookies.ID)
)


@pytest.fixture
def fake() -> FakeProvider:
    return FakeProvider()


@pytest.fixture
async def app(db: Database, fake: FakeProvider) -> AsyncIterator[FastAPI]:
    request_client = RequestClient(db, Settings(web=SETTINGS))
    app = make_app(request_client)
    await app.state.provider.close()
    app.state.provider = Provider(SETTINGS, transport=httpx2.MockTransport(fake))
    yield app
    await app.state.provider.close()


@pytest.fixture
async def browser(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app=app, root_path="/flows")
    async with httpx2.AsyncClient(transport=transport, base_url="https://aiosched.example/flows/api/v1/") as client:
        client.base_url = httpx2.URL("https://aiosched.example/api/v1/")
        yield client


async def begin(browser: httpx2.AsyncClient, back: str = "") -> str:
    answer = await browser.get("login/oidc", params={"back": back})
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


async def log_in(browser: httpx2.AsyncClient, fake: FakeProvider, back: str = "") -> httpx2.Response:
    return await browser.get("login/callback", params=fake.agree(await begin(browser, back)))


async def test_whom_the_provider_vouches_for_is_logged_in(
    db: Database, browser: httpx2.AsyncClient, fake: FakeProvider
) -> None:
    answer = await log_in(browser, fake, back="dags/sales?tab=grid")
    me = (await browser.get("me")).json()

    assert (answer.status_code, answer.headers["location"]) == (303, "/flows/dags/sales?tab=grid")
    assert (me["name"], me["role"], me["login"]) == ("ann", "admin", "oidc")
    assert fake.asked["redirect_uri"] == "https://aiosched.example/flows/api/v1/login/callback"
    assert (fake.asked["code_challenge_method"], fake.asked["scope"]) == ("S256", "openid profile email")
    assert [(user.name, user.has_password) for user in await accounts.list_users(db)] == [("ann", False)]
    assert "verifier" not in str(fake.asked)


async def test_the_role_is_that_of_the_last_login_and_a_lower_one_ends_sessions(
    db: Database, browser: httpx2.AsyncClient, fake: FakeProvider
) -> None:
    old = (await log_in(browser, fake)).cookies[SESSION]
    fake.groups = ["staff", "nobody"]
    await log_in(browser, fake)
    browser.cookies.set(SESSION, old, domain="aiosched.example")

    assert (await browser.get("me")).status_code == 401
    assert [user.role for user in await accounts.list_users(db)] == ["viewer"]


NOT_FOR_US: Final[dict[str, tuple[Change, str]]] = {
    "issuer": (lambda claims: claims.update(iss="https://evil.example"), "not valid"),
    "audience": (lambda claims: claims.update(aud="another"), "not valid"),
    "azp": (lambda claims: claims.update(aud=["aiosched", "another"], azp="another"), "another client"),
    "nonce": (lambda claims: claims.update(nonce="another"), "not valid"),
    "no nonce": (lambda claims: claims.pop("nonce"), "not valid"),
    "expired": (lambda claims: claims.update(exp=int(time.time()) - 3600), "not valid"),
    "future": (lambda claims: claims.update(iat=int(time.time()) + 3600), "not valid"),
    "no expiry": (lambda claims: claims.pop("exp"), "not valid"),
}


async def test_a_token_that_is_not_for_us_is_not_believed(
    db: Database, browser: httpx2.AsyncClient, fake: FakeProvider
) -> None:
    for what, (change, detail) in NOT_FOR_US.items():
        fake.change = change

        answer = await log_in(browser, fake)

        assert (what, answer.status_code, answer.json()["code"]) == (what, 502, "provider")
        assert detail in answer.json()["detail"], what
        assert await accounts.list_users(db) == [], what


@pytest.mark.parametrize("forged", ["other-key", "secret-as-key"])
async def test_a_token_that_somebody_else_signed_is_not_believed(
    browser: httpx2.AsyncClient, fake: FakeProvider, forged: str
) -> None:
    if forged == "other-key":
        fake.key = RSAKey.generate_key(2048, {"kid": "one"})
    else:
        fake.key, fake.algorithm = OctKey.import_key("s3cret-s3cret-s3cret-s3cret-s3cret"), "HS256"

    assert (await log_in(browser, fake)).status_code == 502


async def test_new_keys_of_the_provider_are_fetched(
    browser: httpx2.AsyncClient, fake: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiosched.web.auth.oidc.AGAIN_SECONDS", 0.0)
    assert (await log_in(browser, fake)).status_code == 303
    fake.key = fake.published = RSAKey.generate_key(2048, {"kid": "two"})
    fake.kid = "two"

    assert (await log_in(browser, fake)).status_code == 303
    assert fake.fetched == 2


async def test_a_login_belongs_to_the_browser_that_began_it(
    app: FastAPI, browser: httpx2.AsyncClient, fake: FakeProvider
) -> None:
    brought = fake.agree(await begin(browser))
    wrong_state = await browser.get(
        "login/callback", params={**brought, "state": "another\udcff".encode("utf-8", "replace").decode()}
    )
    browser.cookies.clear()
    elsewhere = await browser.get("login/callback", params=brought)
    browser.cookies.set(FLOW, "e30.x", domain="aiosched.example")
    forged = await browser.get("login/callback", params=brought)

    assert [(a.status_code, a.json()["code"]) for a in (wrong_state, elsewhere, forged)] == [(400, "login-expired")] * 3
    assert all(SESSION not in a.cookies for a in (wrong_state, elsewhere, forged))


async def test_a_code_is_good_once(browser: httpx2.AsyncClient, fake: FakeProvider) -> None:
    brought = fake.agree(await begin(browser))

    flow = browser.cookies[FLOW]
    first = await browser.get("login/callback", params=brought)
    browser.cookies.set(FLOW, flow, domain="aiosched.example")
    again = await browser.get("login/callback", params=brought)

    assert (first.status_code, again.status_code) == (303, 502)
    assert "invalid_grant" in again.json()["detail"]


async def test_who_has_no_role_stays_outside(db: Database, browser: httpx2.AsyncClient, fake: FakeProvider) -> None:
    fake.groups = ["guests"]

    answer = await log_in(browser, fake)

    assert (answer.status_code, answer.json()["code"]) == (403, "not-invited")
    assert await accounts.list_users(db) == []


async def test_groups_give_grants_which_are_those_of_the_last_login(db: Database, fake: FakeProvider) -> None:
    settings = SETTINGS.model_copy(update={"oidc_grants": "guests=viewer@team:a|operator@tag:etl, more=viewer@tag:etl"})
    provider = Provider(settings, transport=httpx2.MockTransport(fake))
    found = []
    for groups in (["guests", "more"], ["more"], ["guests", "staff"]):
        rights = identities.ProvidedRights(*provider._rights({"preferred_username": "ann", "groups": groups}))
        await identities.admit(db, identities.ProvidedIdentity(ISSUER, "1"), "ann", rights)
        user = await accounts.read_user(db, "ann")
        found.append((user.role, user.grants, user.groups))
    await provider.close()

    assert found == [
        ("none", ("operator@tag:etl", "viewer@team:a"), ("guests", "more")),
        ("none", ("viewer@tag:etl",), ("more",)),
        ("viewer", ("operator@tag:etl", "viewer@team:a"), ("guests", "staff")),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [("sales", "web.oidc_grants has 'sales'"), ("sales=viewr@team:a", "begins with no role")],
)
def test_grants_that_mean_nothing_are_refused_at_the_start(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Provider(SETTINGS.model_copy(update={"oidc_grants": text}))


async def test_a_name_with_a_password_is_not_taken_over(
    db: Database, browser: httpx2.AsyncClient, fake: FakeProvider
) -> None:
    await accounts.create_user(db, "ann", "viewer", "hash")

    answer = await log_in(browser, fake)

    assert (answer.status_code, answer.json()["code"]) == (409, "refused")
    assert [user.role for user in await accounts.list_users(db)] == ["viewer"]


async def test_a_person_is_who_the_provider_says_and_not_a_name(
    db: Database, browser: httpx2.AsyncClient, fake: FakeProvider
) -> None:
    await log_in(browser, fake)
    fake.change = lambda claims: claims.update(preferred_username="ann-smith", groups=["staff"])  # she has married
    renamed = await log_in(browser, fake)
    fake.change = lambda claims: claims.update(sub="2")  # somebody else has got her old name
    namesake = await log_in(browser, fake)

    assert renamed.status_code == 303
    assert [(user.name, user.role) for user in await accounts.list_users(db)] == [("ann", "viewer")]
    assert (namesake.status_code, namesake.json()["code"]) == (409, "refused")
    assert "belongs to somebody else" in namesake.json()["detail"]


async def test_a_namesake_of_another_provider_is_somebody_else(db: Database) -> None:
    first = identities.ProvidedIdentity(ISSUER, "1")
    await identities.admit(db, first, "ann", identities.ProvidedRights("admin"))

    with pytest.raises(Refused, match="belongs to somebody else"):
        await identities.admit(
            db, identities.ProvidedIdentity("https://other.example", "1"), "ann", identities.ProvidedRights("admin")
        )
    await identities.admit(
        db, identities.ProvidedIdentity("https://other.example", "1"), "bob", identities.ProvidedRights("viewer")
    )

    assert [(user.name, user.issuer) for user in await accounts.list_users(db)] == [
        ("ann", ISSUER), ("bob", "https://other.example"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "password"), [("service", None), ("local", None), ("person", None), ("person", "hash")]
)
async def test_an_account_of_no_provider_is_not_taken_over_by_its_name(
    db: Database, browser: httpx2.AsyncClient, fake: FakeProvider, kind: str, password: str | None
) -> None:
    await accounts.create_user(db, "ann", "admin", password, kind=kind)
    await Accounts(db, SETTINGS).start()

    assert (await log_in(browser, fake)).status_code == 409
    (ann,) = [user for user in await accounts.list_users(db) if user.name == "ann"]
    assert (ann.issuer, ann.role) == (None, "admin")


async def test_two_first_logins_at_once_are_one_user(db: Database) -> None:
    who = identities.ProvidedIdentity(ISSUER, "1")

    found = await asyncio.gather(
        *(identities.admit(db, who, "ann", identities.ProvidedRights("viewer")) for _ in range(5))
    )

    assert {login.name for login in found} == {"ann"}
    assert len(await accounts.list_users(db)) == 1


async def test_a_subject_must_be_usable(db: Database, browser: httpx2.AsyncClient, fake: FakeProvider) -> None:
    subjects: tuple[Any, ...] = (7, "", None, "x" * 256, "a\0b", ["1"])
    for subject in subjects:
        fake.change = lambda claims, subject=subject: claims.update(sub=subject)

        answer = await log_in(browser, fake)

        assert (subject, answer.status_code, answer.json()["code"]) == (subject, 502, "provider")
        assert await accounts.list_users(db) == []


async def test_an_odd_role_claim_is_refused_by_its_name(
    db: Database, browser: httpx2.AsyncClient, fake: FakeProvider
) -> None:
    values: tuple[Any, ...] = (7, 1.5, True, {"a": 1}, ["ops", 7], [["ops"]], [None])
    for value in values:
        fake.change = lambda claims, value=value: claims.update(groups=value)

        answer = await log_in(browser, fake)

        assert (value, answer.status_code, answer.json()["code"]) == (value, 403, "not-invited")
        assert "'groups' (web.oidc_role_claim)" in answer.json()["detail"]
        assert await accounts.list_users(db) == []


@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint", "jwks_uri", "end_session_endpoint"])
async def test_a_provider_leads_to_protected_addresses_only(
    browser: httpx2.AsyncClient, fake: FakeProvider, name: str
) -> None:
    fake.more = {name: "http://id.example/x"}

    answer = await browser.get("login/oidc")

    assert (answer.status_code, answer.json()["code"]) == (502, "provider")
    assert name in answer.json()["detail"]


@pytest.mark.parametrize("keys", [{"keys": 7}, {"keys": ["x"]}, {"keys": [{"kty": "none"}]}, {"none": []}])
async def test_keys_that_cannot_be_read_are_the_providers_mistake(
    browser: httpx2.AsyncClient, fake: FakeProvider, keys: Any
) -> None:
    fake.keys = keys

    assert (await log_in(browser, fake)).status_code == 502


# ---- logging out ----


async def log_in_and_keep(browser: httpx2.AsyncClient, fake: FakeProvider) -> str:
    """A browser that has logged in; its ID token."""
    answer = await log_in(browser, fake)
    return str(answer.cookies[ID])


async def test_a_logout_goes_on_at_the_provider(browser: httpx2.AsyncClient, fake: FakeProvider) -> None:
    fake.more = {"end_session_endpoint": f"{ISSUER}/logout?realm=ours"}
    id_token = await log_in_and_keep(browser, fake)

    answer = await browser.post("logout")

    address = urlsplit(answer.json()["provider"])
    assert f"{address.scheme}://{address.netloc}{address.path}" == f"{ISSUER}/logout"
    assert dict(parse_qsl(address.query)) == {
        "realm": "ours", "client_id": "aiosched", "id_token_hint": id_token,
        "post_logout_redirect_uri": "https://aiosched.example/flows/",
    }  # fmt: skip
    assert (await browser.get("me")).status_code == 401


async def test_a_large_id_token_is_left_out(browser: httpx2.AsyncClient, fake: FakeProvider) -> None:
    """Browsers keep no cookie of more than 4,096 bytes."""
    fake.more = {"end_session_endpoint": f"{ISSUER}/logout"}
    fake.groups = ["ops", *(f"group-{number}" for number in range(500))]
    await log_in_and_keep(browser, fake)

    address = urlsplit((await browser.post("logout")).json()["provider"])

    assert set(dict(parse_qsl(address.query))) == {"client_id", "post_logout_redirect_uri"}


async def test_a_login_by_password_forgets_who_one_was_at_the_provider(
    db: Database, browser: httpx2.AsyncClient, fake: FakeProvider
) -> None:
    await accounts.create_user(db, "root", "admin", await hash_password("correct horse"))
    await log_in_and_keep(browser, fake)

    answer = await browser.post("login", json={"name": "root", "password": "correct horse"})

    (forgotten,) = [one for one in answer.headers.get_list("set-cookie") if one.startswith(f"{ID}=")]
    assert "Max-Age=0" in forgotten


@pytest.mark.parametrize("state", ["unsupported", "down", "by password"])
async def test_a_logout_is_ours_alone_where_the_provider_has_no_part(
    db: Database, app: FastAPI, browser: httpx2.AsyncClient, fake: FakeProvider, state: str
) -> None:
    await log_in_and_keep(browser, fake)
    if state == "down":
        fake.down = True
        app.state.provider = Provider(SETTINGS, transport=httpx2.MockTransport(fake))
    if state == "by password":
        fake.more = {"end_session_endpoint": f"{ISSUER}/logout"}
        browser.cookies.delete(ID)

    answer = await browser.post("logout")

    assert (answer.status_code, answer.json()) == (200, {"provider": None})
    assert (await browser.get("me")).status_code == 401


async def test_a_disabled_person_stays_outside(db: Database, browser: httpx2.AsyncClient, fake: FakeProvider) -> None:
    await accounts.create_user(db, "root", "admin", "hash")
    await log_in(browser, fake)
    await accounts.change_user(db, "ann", is_disabled=True)

    assert (await log_in(browser, fake)).status_code == 403


async def test_a_name_must_be_usable(browser: httpx2.AsyncClient, fake: FakeProvider) -> None:
    names: tuple[Any, ...] = ("", "a b", "ann\n", 7, None, "x" * 200, "<script>")
    for name in names:
        fake.change = lambda claims, name=name: claims.update(preferred_username=name)

        assert (name, (await log_in(browser, fake)).status_code) == (name, 403)


async def test_what_the_provider_refuses_is_told(browser: httpx2.AsyncClient) -> None:
    await begin(browser)

    answer = await browser.get("login/callback", params={"error": "access_denied"})

    assert (answer.status_code, answer.json()["detail"]) == (403, "The identity provider says 'access_denied'.")


async def test_a_browser_that_is_refused_comes_to_the_login_page(
    browser: httpx2.AsyncClient, fake: FakeProvider
) -> None:
    page = {"accept": "text/html,*/*"}
    late = await browser.get("login/callback", params={"state": "x", "code": "y"}, headers=page)
    fake.down = True
    away = await browser.get("login/oidc", headers=page)

    assert [answer.status_code for answer in (late, away)] == [303, 303]
    assert late.headers["location"] == "/flows/?refused=login-expired"
    assert away.headers["location"] == "/flows/?refused=provider"


async def test_a_provider_that_is_away_is_told(browser: httpx2.AsyncClient, fake: FakeProvider) -> None:
    fake.down = True

    answer = await browser.get("login/oidc")

    assert (answer.status_code, answer.json()["code"]) == (502, "provider")


@pytest.mark.parametrize(
    ("back", "kept"),
    [
        ("dags/a%3Ab?tab=grid&x=1", True),
        ("", True),
        ("/evil.example", False),
        ("//evil.example", False),
        ("https://evil.example", False),
        ("x/\\evil.example", False),
        ("dags\r\nX-Evil: 1", False),
        ("a//b", False),
        ("x" * 600, False),
    ],
)
def test_a_login_leads_back_to_a_page_of_ours_only(back: str, kept: bool) -> None:
    assert Flow.begin(back).back == (back if kept else "")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"oidc_issuer": None}, "oidc_issuer"),
        ({"oidc_issuer": "http://id.example"}, "must begin with https://"),
        ({"oidc_issuer": "ftp://127.0.0.1"}, "must begin with https://"),
        ({"oidc_issuer": "id.example"}, "must begin with https://"),
        ({"oidc_client_id": None}, "oidc_client_id"),
        ({"oidc_roles": "boss=ops"}, "boss=ops"),
        ({"oidc_roles": "admin="}, "admin="),
    ],
)
def test_settings_that_lack_something_are_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        check_provider(SETTINGS.model_copy(update=changed))


async def test_without_a_provider_there_is_nobody_to_go_to(db: Database) -> None:
    app = make_app(RequestClient(db, Settings(web=WebSettings(auth="password"))))

    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://x/api/v1/") as client:
        answers = [await client.get("login/oidc"), await client.get("login/callback"), await client.get("login")]

    assert [answer.status_code for answer in answers] == [409, 409, 200]
    assert answers[2].json() == {"login": "password"}
