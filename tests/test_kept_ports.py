"""A port of a server that is started again stays free for it (ports.py)."""

from __future__ import annotations

import socket

import pytest

from tests.ports import free_port


def test_a_server_listens_there_again_and_again_and_in_between_one_is_refused() -> None:
    port = free_port()

    for _ in range(3):
        with socket.create_server(("127.0.0.1", port)):  # it says SO_REUSEADDR
            socket.create_connection(("127.0.0.1", port)).close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))


def test_nobody_else_gets_it_as_the_near_end_of_a_connection() -> None:
    port = free_port()

    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as other:
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        other.connect(server.getsockname())
        assert other.getsockname()[1] != port


def test_each_call_has_a_port_of_its_own() -> None:
    assert len({free_port() for _ in range(50)}) == 50
