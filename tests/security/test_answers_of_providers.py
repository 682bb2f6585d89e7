"""Identity providers and vaults that never end their answers, or say something odd: their clients have limits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from aiosched.backends import vault
from aiosched.backends.vault import VaultBackend
from aiosched.config import WebSettings
from aiosched.web.auth import oidc
from aiosched.web.auth.oidc import Flow, Provider
from aiosched.web.server.problems import Problem
from tests.patience import PATIENCE
from tests.security.endless_servers import ENDLESS, HEAD, Server, starting

FLOW = Flow("s", "n", "v", 2**40, "")


@pytest.fixture
def serve() -> Iterator[Callable[[str], Server]]:
    with starting() as start:
        yield start


# ---- the identity provider


def provider(url: str) -> Provider:
    settings = WebSettings(auth="oidc", oidc_issuer=url, oidc_client_id="c", oidc_default_role="viewer")
    return Provider(settings)


@pytest.mark.parametrize("how", ENDLESS)
async def test_an_identity_provider_without_an_end_is_left(
    serve: Callable[[str], Server], how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc, "_PATIENCE", 0.5 if "byte" in how else PATIENCE)
    found = provider(serve(how).url)
    with pytest.raises(Problem, match=r"more than 1,048,576 bytes|cannot be reached"):
        await found.address(FLOW, "http://127.0.0.1/back")
    await found.close()


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"jwks_uri": "http://[::1"}, "jwks_uri does not begin with https"),
        ({"token_endpoint": ["https://a"]}, "token_endpoint does not begin with https"),
        ({"authorization_endpoint": "http://elsewhere/"}, "authorization_endpoint does not begin with https"),
        ({"issuer": None}, "calls itself None"),
    ],
)
async def test_an_identity_provider_that_describes_itself_oddly_is_not_believed(about: Any, words: str) -> None:
    def say(asked: bytes, send: Callable[[bytes], None]) -> None:
        ends = dict.fromkeys(("authorization_endpoint", "token_endpoint", "jwks_uri"), f"{server.url}/x")
        body = json.dumps({"issuer": server.url, **ends, **about}).encode()
        send(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)

    server = Server(say)
    found = provider(server.url)
    with pytest.raises(Problem) as caught:
        await found.address(FLOW, "http://127.0.0.1/back")
    assert words in (caught.value.detail or "")
    await found.close()
    server.close()


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 100_000, b"null", b"[]", b"\xff"])
async def test_an_answer_of_the_identity_provider_that_is_no_object_is_not_believed(body: bytes) -> None:
    server = Server(lambda asked, send: send(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body))
    found = provider(server.url)
    with pytest.raises(Problem):
        await found.address(FLOW, "http://127.0.0.1/back")
    await found.close()
    server.close()


# ---- vaults


@pytest.mark.parametrize("how", ENDLESS[:2])
def test_a_vault_without_an_end_is_left(
    serve: Callable[[str], Server], how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vault, "_MOST_BYTES", 2**20)
    backend = VaultBackend(url=serve(how).url, token="t", timeout=0.5 if "byte" in how else PATIENCE)
    with pytest.raises(Exception, match="more than 1,048,576 bytes, or takes too long"):
        backend.get("variable", "region")


def test_the_token_of_a_vault_does_not_leave_https() -> None:
    requests = pytest.importorskip("requests")
    session = vault._session(True, 1.0)
    response = SimpleNamespace(request=SimpleNamespace(url="https://vault/v1/x"))
    with pytest.raises(Exception, match="leads out of https"):
        session.rebuild_auth(requests.Request("GET", "http://other/v1/x").prepare(), response)
    session.rebuild_auth(requests.Request("GET", "https://other/v1/x", headers={}).prepare(), response)
