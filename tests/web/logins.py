"""Logging in to an application over ASGI."""

from __future__ import annotations

import httpx2
from fastapi import FastAPI

from aiosched.web.auth import cookies

PASSWORD = "correct horse"  # of everybody
SESSION_COOKIE = cookies.sent_name(cookies.SESSION, tls=True)  # as `client_of` has it


def client_of(app: FastAPI) -> httpx2.AsyncClient:
    """A browser; paths are relative to `/api/v1`."""
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url="https://aiosched.example/api/v1/")


async def log_in(browser: httpx2.AsyncClient, name: str, password: str = PASSWORD) -> httpx2.Response:
    """Log in; what the browser sends from now on has the token against forged requests."""
    answer = await browser.post("login", json={"name": name, "password": password})
    if answer.is_success:
        browser.headers["X-CSRF-Token"] = answer.json()["csrf"]
    return answer
