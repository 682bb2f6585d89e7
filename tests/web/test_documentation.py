"""The documentation site under `/docs`: served with the headers of every page, and honest where it was not built."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI

from aiosched.config import Settings
from aiosched.db.server.engine import Database
from aiosched.web.app import make_app
from aiosched.web.requests.request_client import RequestClient
from aiosched.web.views import documentation


@pytest.fixture
def app(db: Database) -> FastAPI:
    """A web server that asks for a login."""
    return make_app(RequestClient(db, Settings()))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a site with one page, beside a file that is none of its business."""
    folder = tmp_path / "site"
    (folder / "_downloads").mkdir(parents=True)
    (folder / "index.html").write_text("<h1>aiosched</h1>")
    (folder / "_downloads" / "hello.py").write_text("print(1)")
    (tmp_path / "secret.txt").write_text("secret")
    monkeypatch.setattr(documentation, "PLACES", (tmp_path / "nowhere", folder))
    return folder


async def ask(app: FastAPI, path: str, root: str = "", **headers: str) -> httpx2.Response:
    transport = httpx2.ASGITransport(app=app, root_path=root)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.get(path, headers=headers)


async def test_a_page_of_the_site_is_served_with_the_policy_of_every_page(app: FastAPI, site: Path) -> None:
    answer = await ask(app, "/docs/")
    again = await ask(app, "/docs/", **{"if-none-match": answer.headers["etag"]})

    assert (answer.status_code, answer.text) == (200, "<h1>aiosched</h1>")
    assert answer.headers["content-type"].startswith("text/html")
    assert "script-src 'self';" in answer.headers["content-security-policy"]
    assert again.status_code == 304


async def test_a_file_to_download_is_shown_as_text(app: FastAPI, site: Path) -> None:
    answer = await ask(app, "/docs/_downloads/hello.py")

    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8")


@pytest.mark.parametrize(
    "path",
    [
        "/docs/none.html",
        "/docs/..%2Fsecret.txt",
        "/docs/_downloads",
        "/docs/a%00b",
        "/docs/" + "a" * 300,
        "/docs/%FF",
        "/docs/index.html/more",
    ],
)
async def test_what_the_site_does_not_have_is_not_found(app: FastAPI, site: Path, path: str) -> None:
    answer = await ask(app, path)

    assert answer.status_code == 404
    assert answer.json()["code"] == "not-found"


@pytest.mark.parametrize("root", ["", "/flows"])
async def test_the_address_without_a_slash_leads_to_the_one_below_which_links_work(
    app: FastAPI, site: Path, root: str
) -> None:
    answer = await ask(app, f"{root}/docs", root)

    assert (answer.status_code, answer.headers["location"]) == (308, f"{root}/docs/")


async def test_without_a_built_site_a_page_says_the_command_that_builds_it(
    app: FastAPI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documentation, "PLACES", (tmp_path,))

    front, other = await ask(app, "/docs/"), await ask(app, "/docs/why.html")

    assert front.status_code == 200
    assert "<pre>make docs</pre>" in front.text
    assert "href" not in front.text
    assert other.status_code == 404
