"""How failed logins are slowed down: which counters an attempt has, and how long each makes the next one wait. Pure.

Each combination of a name and an address has a counter of its own, so that nobody locks out somebody else's address. A
name alone, and an address alone, count with much room, against guesses from many addresses and of many names. A browser
in which the user has logged in before counts apart, whatever others do with the name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network


@dataclass(frozen=True, slots=True)
class LoginCounter:
    """Failures that count together: `free` ones cost nothing, then each doubles the wait, up to `longest` seconds."""

    key: str
    free: int
    longest: float
    is_forgiven: bool = True  # by a login that succeeds

    def wait(self, failures: int) -> float:
        """Seconds from the last of so many failures until the next attempt."""
        over = failures - self.free
        return min(2.0 ** min(over, 30), self.longest) if over >= 0 else 0.0


def counters_of(name: str, address: str, device: str | None = None) -> Sequence[LoginCounter]:
    """The counters of an attempt from `address`; `device`: the browser, if this user has logged in with it before."""
    if device is not None:
        return (LoginCounter(_key("device", name, device), 10, 900.0),)
    network = _network(address)
    return (
        LoginCounter(_key("pair", name, network), 5, 900.0),
        LoginCounter(_key("name", name), 50, 60.0),
        LoginCounter(_key("address", network), 200, 60.0, is_forgiven=False),
    )


def is_one_proxy(addresses: Sequence[str]) -> bool:
    """Whether all logins came from one private address that is not this machine: it may be a proxy."""
    if len(addresses) != 1:
        return False
    try:
        address = ip_address(addresses[0])
    except ValueError:
        return False
    return address.is_private and not address.is_loopback


def _network(address: str) -> str:
    """A customer of IPv6 has a whole network of addresses."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    return str(ip_network((found, 64), strict=False)) if isinstance(found, IPv6Address) else address


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
