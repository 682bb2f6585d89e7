"""`airflow.security.utils`: names of hosts and Kerberos principals, as hooks of Hive and Hadoop ask for them."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence

_ANY_ADDRESS = "0.0.0.0"  # noqa: S104 compared only


def get_hostname() -> str:
    """The full name of this machine."""
    return socket.getfqdn()


def get_components(principal: str | None) -> list[str] | None:
    """Name, host and realm of `name/host@REALM`; None without a principal."""
    return re.split(r"[/@]", principal) if principal else None


def replace_hostname_pattern(components: Sequence[str], host: str | None = None) -> str:
    """The principal of these components, with `host` (by default this machine) instead of the one that they have."""
    name = host if host and host != _ANY_ADDRESS else get_hostname()
    return f"{components[0]}/{name.lower()}@{components[2]}"


def get_fqdn(hostname_or_ip: str | None = None) -> str | None:
    """The full name of a host, by default of this machine; the name itself if it cannot be resolved."""
    if not hostname_or_ip:
        return get_hostname()
    try:
        found = socket.gethostbyaddr(hostname_or_ip)[0]
    except OSError:
        return hostname_or_ip
    return get_hostname() if found == "localhost" else found


def principal_from_username(username: str, realm: str | None) -> str:
    """`username@REALM`, unless the name has a realm or there is none."""
    return f"{username}@{realm}" if realm and "@" not in username else username
