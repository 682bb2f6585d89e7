"""The port of the web server: what somebody has chosen is used or refused, and never another one."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

from aiosched.errors import ConfigError
from aiosched.web.server import ports


@pytest.fixture
def used() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def test_a_port_that_was_chosen_and_is_in_use_is_refused(used: int) -> None:
    with pytest.raises(ConfigError, match=f"Port {used} of 127.0.0.1 is in use, .* leave web.port out"):
        ports.bind("127.0.0.1", used, is_chosen=True)


def test_the_default_moves_on_to_the_next_free_one(used: int) -> None:
    with contextlib.closing(ports.bind("127.0.0.1", used)) as sock:
        assert used < sock.getsockname()[1] < used + 50


@pytest.mark.parametrize("is_chosen", [True, False])
def test_zero_is_any_port(is_chosen: bool) -> None:
    with contextlib.closing(ports.bind("127.0.0.1", 0, is_chosen=is_chosen)) as sock:
        assert sock.getsockname()[1] > 0
