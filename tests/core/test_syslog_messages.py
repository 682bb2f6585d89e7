"""Entries of the audit log as messages of RFC 5424."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.audit.syslog import Receiver, framed, message_of, receiver_of

ENTRY: dict[str, Any] = {
    "id": 7,
    "at": datetime(2026, 1, 31, 6, 0, 0, 250, tzinfo=UTC),
    "kind": "login.refused",
    "who": "anonymous",
    "address": "192.0.2.1",
    "object": 'a"b]c\\d',
    "result": "refused",
    "detail": {"code": "wrong-login"},
}


def test_a_message_has_the_fields_of_the_entry_and_its_detail() -> None:
    assert message_of(ENTRY, host="web 1", process=42).decode() == (
        "<108>1 2026-01-31T06:00:00.000250Z web_1 aiosched 42 login.refused "
        '[aiosched@32473 id="7" kind="login.refused" who="anonymous" address="192.0.2.1" object="a\\"b\\]c\\\\d" '
        'result="refused"] {"code":"wrong-login"}'
    )


@given(st.text(), st.text())
def test_no_name_ends_a_message_or_begins_another(who: str, about: str) -> None:
    message = message_of({**ENTRY, "who": who, "object": about}, host="h", process=1).decode("utf-8", "surrogatepass")

    assert "\n" not in message
    assert re.fullmatch(r"<108>1 \S+ h aiosched 1 login\.refused \[(?:[^\]\\]|\\.)*\] \{.*\}", message)


def test_tcp_counts_the_octets() -> None:
    assert framed("ü".encode(), Receiver("tcp", "h")) == b"2 " + "ü".encode()
    assert framed(b"x", Receiver("udp", "h")) == b"x"


@pytest.mark.parametrize(
    ("address", "receiver"),
    [
        ("udp://logs:5514", Receiver("udp", "logs", 5514)),
        ("tcp://[2001:db8::1]", Receiver("tcp", "2001:db8::1", 514)),
        ("unix:///dev/log", Receiver("unix", path="/dev/log")),
    ],
)
def test_an_address_names_a_receiver(address: str, receiver: Receiver) -> None:
    assert receiver_of(address) == receiver


@pytest.mark.parametrize("address", ["logs:514", "http://logs", "unix://", "udp://", "udp://h:x", "tcp://h/path"])
def test_other_addresses_are_refused(address: str) -> None:
    with pytest.raises(ValueError):
        receiver_of(address)
