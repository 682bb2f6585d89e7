"""Which names in the Host header are answered. Pure.

A site that somebody visits can let its own name lead to this server (DNS rebinding): the visitor's browser then takes
our answers for that site's. It has none of our cookies under that name, so a server with a login shows it no more than
to anybody; without a login it would be an administrator. Under an address no site can come, so addresses are answered,
and probes and scrapers use them; a server that listens at a loopback address answers to those of this machine only.
"""

from __future__ import annotations

import enum
import ipaddress
import re
import socket
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from aiosched.config import WebSettings
from aiosched.web.server.ports import is_loopback

ADVICE: Final = "name the hosts under which people and programs reach it in web.allowed_hosts"
_HOST: Final = re.compile(r"(\[(?P<address>[^\[\]]*)\]|(?P<name>[^:\[\]@]*))(:[0-9]*)?")


class Unnamed(enum.Enum):
    """Which names are answered that no setting has."""

    LOOPBACK = "those of this machine"
    ADDRESSES = "addresses, and names of this machine"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class HostNames:
    """The names that a server answers to: `named` in settings, in lower case, and of the others those in `unnamed`."""

    named: frozenset[str]
    unnamed: Unnamed

    def include(self, host: str) -> bool:
        """Whether to answer a request with this Host header."""
        name = name_of(host).lower()
        if name in self.named or self.unnamed is Unnamed.ALL or is_loopback(name):
            return True
        return self.unnamed is Unnamed.ADDRESSES and (_is_address(name) or name == socket.gethostname().lower())

    @property
    def warning(self) -> str | None:
        """What to tell who administers a server; None if it answers to the names that it should."""
        if self.unnamed is Unnamed.ALL:
            return "the web server answers to any host name, also to one that a foreign site lets lead to it"
        if self.unnamed is Unnamed.ADDRESSES and not self.named:
            return "without a login the web server answers to addresses and names of this machine only"
        return None


def names_answered(web: WebSettings, *, without_login: bool, listens: bool = True) -> HostNames:
    """The names for these settings. `listens`: the server is at `web.host` itself, not mounted in an application."""
    named = frozenset(name.lower() for part in web.allowed_hosts.split(",") if (name := part.strip()))
    if without_login and (web.auth is None or (listens and is_loopback(web.host))):
        unnamed = Unnamed.LOOPBACK
    elif named or (without_login and listens):
        unnamed = Unnamed.ADDRESSES
    else:
        unnamed = Unnamed.ALL
    ours = urlsplit(web.base_url).hostname if web.base_url else None
    return HostNames(named | {ours} if ours else named, unnamed)


def name_of(host: str) -> str:
    """The name in a Host header, without its port; empty if it is no name."""
    found = _HOST.fullmatch(host)
    return "" if found is None else found["address"] or found["name"] or ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
