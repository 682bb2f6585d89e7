"""Cookies of logins: how they are named, set, read and deleted.

Over TLS their names begin with `__Host-`. Browsers take such a cookie from this host alone, over TLS, so neither a
server of a neighbouring name nor somebody who forges plain HTTP can plant one. Nothing else is read there: a cookie
without that may be planted. Such a cookie is for the whole host, so servers under different prefixes have different
names. Over plain HTTP browsers would not keep it.
"""

from __future__ import annotations

import hashlib
from typing import Final

from fastapi import Request
from fastapi.responses import Response

from aiosched.web.server.guard import PREFIX

SESSION: Final = "aiosched_session"
DEVICE: Final = "aiosched_device"
FLOW: Final = "aiosched_login"  # a login that has begun at an identity provider
ID: Final = "aiosched_id"  # what the identity provider said who this is, for the logout there
_OF_THIS_HOST: Final = "__Host-"


def read_cookie(request: Request, name: str) -> str | None:
    """The value of a cookie that this server has set."""
    return request.cookies.get(_sent_name(request, name))


def give_cookie(request: Request, response: Response, name: str, value: str, seconds: float) -> None:
    """Set a cookie for so many seconds."""
    _forget_plain(request, response, name)
    response.set_cookie(
        _sent_name(request, name),
        value,
        max_age=int(seconds),
        path=_path(request),
        secure=_is_tls(request),
        httponly=True,
        samesite="lax",
    )


def take_cookie(request: Request, response: Response, name: str) -> None:
    """Delete a cookie."""
    _forget_plain(request, response, name)
    _delete(request, response, _sent_name(request, name), _path(request))


def sent_name(name: str, *, tls: bool, prefix: str = "") -> str:
    """The name under which browsers have a cookie of a server under `prefix`, such as `/flows`."""
    if not tls:
        return name
    server = f"_{hashlib.sha256(prefix.encode()).hexdigest()[:12]}" if prefix else ""
    return f"{_OF_THIS_HOST}{name}{server}"


def _sent_name(request: Request, name: str) -> str:
    return sent_name(name, tls=_is_tls(request), prefix=_prefix(request))


def _forget_plain(request: Request, response: Response, name: str) -> None:
    """Over TLS, delete the cookie of a release before, which is not read any more."""
    if _is_tls(request) and name in request.cookies:
        _delete(request, response, name, f"{_prefix(request)}/")


def _delete(request: Request, response: Response, sent: str, path: str) -> None:
    response.delete_cookie(sent, path=path, secure=_is_tls(request), httponly=True, samesite="lax")


def _is_tls(request: Request) -> bool:
    return request.url.scheme == "https"


def _path(request: Request) -> str:
    return "/" if _is_tls(request) else f"{_prefix(request)}/"


def _prefix(request: Request) -> str:
    return str(request.scope.get(PREFIX, request.scope.get("root_path", ""))).rstrip("/")
