"""The address of the web server: a free port, and the rule that an address which others can reach needs a login.

It has few imports, because the scheduler's process needs only this module of the room.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
from typing import Final

from aiosched.config import WebSettings
from aiosched.errors import ConfigError

_PORTS_TRIED: Final = 50


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches `host`. The only name that counts is `localhost`."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def bind(host: str, port: int, *, is_chosen: bool = False) -> socket.socket:
    """A listening socket on `port`, or, unless somebody has chosen it, on the next free one; port 0: any.

    Raises ConfigError for an address that is not this machine's, and if no such port is free.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise ConfigError(f"web.host = {host!r} is no address of this machine: {error.strerror or error}.") from None
    tried = range(port, min(port + _PORTS_TRIED, 65536)) if port and not is_chosen else (port,)
    for candidate in tried:
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((address[0], candidate, *address[2:]))
            sock.listen(1024)
        except OSError as error:
            sock.close()
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                continue
            raise ConfigError(f"web.host = {host!r} cannot be listened on: {error.strerror}.") from None
        sock.setblocking(False)
        return sock
    if is_chosen:
        raise ConfigError(
            f"Port {port} of {host} is in use, or not for this user. Stop what listens there, choose another port with "
            "--port, or leave web.port out to have a free one taken."
        )
    raise ConfigError(f"No port from {tried[0]} to {tried[-1]} can be had on {host}. Choose another with --port.")


def url_of(sock: socket.socket, host: str) -> str:
    """The address to open in a browser."""
    shown = f"[{host.strip('[]')}]" if ":" in host else host
    return f"http://{shown}:{sock.getsockname()[1]}"


def asks_for_token(settings: WebSettings) -> bool:
    """Whether a browser logs in with the one-time token of the printed address."""
    return settings.auth is None and settings.loopback_login == "token"


def check_exposure(settings: WebSettings) -> None:
    """Raise ConfigError if other machines can reach the address and `web.auth` is not set."""
    if settings.auth is None and not is_loopback(settings.host):
        raise ConfigError(
            f"web.host = {settings.host!r} can be reached from other machines, and web.auth is not set. Set it to "
            "'password' (AIOSCHED__WEB__AUTH=password) and make a user with `aiosched users create NAME --role admin`, "
            "to 'oidc' for an identity provider, or to 'none' if something in front of this server handles the login."
        )
