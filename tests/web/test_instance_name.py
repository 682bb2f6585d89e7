"""The name of the installation, in the page that a browser gets, also before the login."""

from __future__ import annotations

import httpx2
import pytest
from pydantic import ValidationError

from aiosched.config import Settings, WebSettings
from aiosched.db.server.engine import Database
from aiosched.web.app import make_app
from aiosched.web.requests.request_client import RequestClient

HOSTILE = '"><script>{base}</script>'


@pytest.mark.parametrize(
    ("name", "title", "attribute"),
    [
        ("", "<title>aiosched</title>", 'data-instance=""'),
        ("PROD", "<title>PROD · aiosched</title>", 'data-instance="PROD" data-instance-color="red"'),
        (HOSTILE, "<title>&quot;&gt;&lt;script&gt;{base}", 'data-instance="&quot;&gt;&lt;script&gt;{base}'),
    ],
)
async def test_the_page_has_the_name_and_colour_of_the_installation(
    web_db: Database, name: str, title: str, attribute: str
) -> None:
    app = make_app(RequestClient(web_db, Settings(web=WebSettings(instance_name=name, instance_color="red"))))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://localhost") as client:
        page = await client.get("/runs")

    assert title in page.text
    assert attribute in page.text


@pytest.mark.parametrize("wrong", [{"instance_name": "x" * 31}, {"instance_name": "a\nb"}, {"instance_color": "pink"}])
def test_a_wrong_name_or_colour_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        WebSettings(**wrong)  # type: ignore[arg-type]
