"""A port of a server that is started again stays free for it (ports.py)."""

from __future__ import annotations

import socket

import pytest

from tests.ports import free_port


def test_nobody_else_gets_it_as_the_near_end_of_a_connection() -> None:
    port = free_port()

    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as other:
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        other.connect(server.getsockname())
        assert other.getsockname()[1] != port
