"""Entries of the audit log as messages of syslog, RFC 5424, and the address they go to. Pure.

A message has one structured element, `aiosched@32473`, with the fields of the entry; its text is the detail as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import msgspec

_FACILITY: Final = 13  # log audit
_SEVERITY: Final[Mapping[str, int]] = {"done": 6, "refused": 4, "failed": 4}  # informational, warning
_ELEMENT: Final = "aiosched@32473"  # the number that examples use, for those without one of their own
_LONGEST: Final = 4_000  # bytes of the text of a message


@dataclass(frozen=True, slots=True)
class Receiver:
    """Where messages go: to a host and port by UDP or TCP, or to a socket in the file system (`path`)."""

    kind: Literal["udp", "tcp", "unix"]
    host: str = ""
    port: int = 514
    path: str = ""


def receiver_of(address: str) -> Receiver:
    """The receiver of `udp://host:514`, `tcp://host:601` or `unix:///dev/log`. Raises ValueError."""
    parts = urlsplit(address)
    if parts.scheme == "unix" and parts.path and not parts.netloc:
        return Receiver("unix", path=parts.path)
    if parts.scheme in ("udp", "tcp") and parts.hostname and not parts.path:
        return Receiver("udp" if parts.scheme == "udp" else "tcp", parts.hostname, parts.port or 514)
    raise ValueError("must be udp://host:514, tcp://host:514 or unix:///dev/log")


def message_of(entry: Mapping[str, Any], *, host: str, process: int) -> bytes:
    """The message of an entry, without framing: one line."""
    at: datetime = entry["at"]
    priority = _FACILITY * 8 + _SEVERITY.get(entry["result"], 5)
    head = f"<{priority}>1 {at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ} {_word(host, 255)} aiosched {process}"
    fields = {name: value for name, value in entry.items() if name not in ("at", "detail") and value is not None}
    element = "".join(f' {name}="{_value(value)}"' for name, value in fields.items())
    text = msgspec.json.encode(entry["detail"])
    if len(text) > _LONGEST:
        text = b'{"detail":"too long"}'
    return f"{head} {_word(entry['kind'], 32)} [{_ELEMENT}{element}] ".encode() + text


def framed(message: bytes, receiver: Receiver) -> bytes:
    """The message as TCP carries it (RFC 6587, counted octets); a datagram needs no frame."""
    return b"%d %s" % (len(message), message) if receiver.kind == "tcp" else message


def _word(text: str, longest: int) -> str:
    """Printable ASCII without spaces, as in the head of a message."""
    return "".join(c if "!" <= c <= "~" else "_" for c in text)[:longest] or "-"


def _value(value: object) -> str:
    text = "".join(c if c.isprintable() else " " for c in str(value))
    return text.replace("\\", r"\\").replace('"', r"\"").replace("]", r"\]")
