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


@pytest.mark.parametrize(("result", "severity"), [("done", 6), ("refused", 4), ("failed", 4), ("unheard of", 5)])
def test_what_was_not_done_is_more_severe(result: str, severity: int) -> None:
    message = message_of({**ENTRY, "result": result}, host="h", process=1)

    assert message.startswith(b"<%d>1 " % (13 * 8 + severity))  # 13: log audit


@pytest.mark.parametrize(("host", "sent"), [("!web~1", "!web~1"), ("w e\x7fb\né", "w_e_b__"), ("", "-")])
def test_a_host_is_one_printable_word(host: str, sent: str) -> None:
    assert message_of(ENTRY, host=host, process=1).split()[2] == sent.encode()


def test_the_parts_of_a_message_are_no_longer_than_receivers_take() -> None:
    """RFC 5424, section 6: 255 characters of a host, 32 of the kind of a message."""
    entry = {**ENTRY, "kind": "k" * 33, "detail": {"": "x" * (4_000 - len('{"":""}'))}}
    longer = {**entry, "detail": {"": "x" * 4_000}}

    head, text = message_of(entry, host="h" * 256, process=42).decode().split(" [aiosched@32473 ")

    assert head == f"<108>1 2026-01-31T06:00:00.000250Z {'h' * 255} aiosched 42 {'k' * 32}"
    assert len(text.partition("] ")[2]) == 4_000
    assert message_of(longer, host="h", process=42).endswith(b'] {"detail":"too long"}')


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
