"""The address of the web server: a port that is free, and the rule that what others reach needs a login.

Light, because the scheduler's process needs no more of this room than this.
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
    """Whether only this machine reaches `host`. A name counts when it is `localhost`."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def bind(host: str, port: int) -> socket.socket:
    """A listening socket on `port` or the next free one behind it; port 0: any.

    Raises ConfigError for an address that is not this machine's, and when no port is free.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise ConfigError(f"web.host = {host!r} is no address of this machine: {error.strerror or error}.") from None
    tried = range(port, min(port + _PORTS_TRIED, 65536)) if port else (0,)
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
    raise ConfigError(f"No port from {tried[0]} to {tried[-1]} can be had on {host}. Choose another with --port.")


def url_of(sock: socket.socket, host: str) -> str:
    """The address to type into a browser."""
    shown = f"[{host.strip('[]')}]" if ":" in host else host
    return f"http://{shown}:{sock.getsockname()[1]}"


def check_exposure(settings: WebSettings) -> None:
    """Raise ConfigError for an address that other machines reach, without a word about logging in."""
    if settings.auth is None and not is_loopback(settings.host):
        raise ConfigError(
            f"web.host = {settings.host!r} can be reached from other machines, and web.auth is not set. Set it to "
            "'password' (AIOSCHED__WEB__AUTH=password) and make a user with `aiosched users create NAME --role admin`, "
            "to 'oidc' for a provider of logins, or to 'none' if something in front of this server sees to the login."
        )
