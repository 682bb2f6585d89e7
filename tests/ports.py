"""Ports of this machine for servers that tests start later, or kill and start again."""

from __future__ import annotations

import atexit
import socket
from typing import Final

_held: Final[list[socket.socket]] = []


def free_port(host: str = "127.0.0.1") -> int:
    """A port at `host` that is kept for servers of this session: nobody else gets it before, between or after them.

    Only found free, it could go to a server or be the near end of a connection of somebody else while nothing listens;
    then the server cannot start again for as long as that lives. So it stays bound, and nothing listens: who connects
    is refused. A server that says SO_REUSEADDR, as all of ours do, can listen there.
    """
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind((host, 0))
    _held.append(kept)
    return int(kept.getsockname()[1])


@atexit.register
def _give_back() -> None:
    for kept in _held:
        kept.close()
