"""The address of the web server for people: how to log in there, opening it, and remembering it for other commands.

At a loopback address without `web.auth` it has a one-time token. `aiosched web address` makes another one; it knows the
server by a file in `core.home`, because the port may be another one than that of the settings.
"""

from __future__ import annotations

import contextlib
import html
import os
import socket
import webbrowser
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from aiosched.config import Settings
    from aiosched.db.server.engine import Database

_ADDRESS: Final = "web.address"
_OPENED: Final = "open.html"
_ANSWERS_WITHIN: Final = 2.0  # seconds
_LOGINS: Final = {
    None: "no login: every user and program of this machine is an administrator",
    "none": "no login",
    "password": "login by password",
    "oidc": "login with an identity provider",
}


@dataclass(frozen=True, slots=True)
class WebPage:
    """The address to open, how one logs in there, and the folder for a file that leads a browser to it."""

    url: str
    login: str
    folder: Path
    token: str | None = None  # that `url` has

    @property
    def url_without_token(self) -> str:
        """The same page for whoever is logged in."""
        return self.url if self.token is None else self.url.replace(f"token={self.token}", "").rstrip("?&")

    def open(self) -> bool:
        """Open it in a browser; whether that can be done.

        Others of this machine can read the arguments of a process, so the browser gets a file that only its user can
        read, and the file has the address.
        """
        path = self.folder / _OPENED
        address = html.escape(self.url, quote=True)
        if not _write_private(path, f'<!doctype html><meta http-equiv="refresh" content="0; url={address}">\n'):
            return False
        return webbrowser.open(path.absolute().as_uri())


@contextlib.asynccontextmanager
async def offered_page(settings: Settings, db: Database, url: str) -> AsyncIterator[WebPage]:
    """The page of a web server that serves at `url` during the block."""
    folder = settings.core.home
    path = folder / _ADDRESS
    _write_private(path, url + "\n")
    try:
        yield await page_at(settings, db, url)
    finally:
        for file in (path, folder / _OPENED):
            with contextlib.suppress(OSError):
                file.unlink()


async def page_at(settings: Settings, db: Database, url: str, path: str = "/") -> WebPage:
    """A page of the server at `url`, with a new one-time token if that is how one logs in. Raises Refused.

    Its address is that for people: `web.base_url` if it is set, otherwise `url` and `web.prefix`.
    """
    from aiosched.db.people.local_logins import make_link, make_local_user
    from aiosched.web.auth.passwords import hash_token, new_token
    from aiosched.web.server.ports import asks_for_token

    url = (settings.web.base_url or url + settings.web.prefix).rstrip("/")
    if not asks_for_token(settings.web):
        return WebPage(url if path == "/" else url + path, _LOGINS[settings.web.auth], settings.core.home)
    await make_local_user(db)
    token = new_token()
    await make_link(db, hash_token(token))
    address = f"{url}{path}{'&' if '?' in path else '?'}token={token}"
    return WebPage(address, "logs in once; again: aiosched web address", settings.core.home, token)


def served_address(settings: Settings) -> str:
    """The address of the server that was started last in `core.home`; without one, that of the settings."""
    try:
        return (settings.core.home / _ADDRESS).read_text(encoding="utf-8").strip()
    except OSError:
        host = settings.web.host.strip("[]")
        return f"http://{f'[{host}]' if ':' in host else host}:{settings.web.port}"


def answers(url: str) -> bool:
    """Whether something listens at an address of a web server."""
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname or "", parts.port or 80), timeout=_ANSWERS_WITHIN).close()
    except OSError:
        return False
    return True


def _write_private(path: Path, text: str) -> bool:
    """Replace a file by one that only its user can read; false where nothing can be written, as in some containers."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        return False
    return True
