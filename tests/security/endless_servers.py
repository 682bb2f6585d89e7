"""Servers for tests that never end their answers, or send byte by byte."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


class Server:
    """A server on this machine. `say` gets the request's first bytes and a function that sends; it ends with us."""

    def __init__(self, say: Callable[[bytes, Callable[[bytes], None]], None]) -> None:
        self.ended = threading.Event()
        self.asked: list[bytes] = []
        self._say = say
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._answer, args=(self._socket.accept()[0],), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            asked = connection.recv(65_536)
            self.asked.append(asked)
            self._say(asked, connection.sendall)

    def close(self) -> None:
        self.ended.set()
        self._socket.close()


ENDLESS = ["an endless body", "byte by byte", "headers byte by byte"]


@contextlib.contextmanager
def starting() -> Iterator[Callable[[str], Server]]:
    """Starts servers that answer in a way that has a name."""
    servers: list[Server] = []

    def start(how: str) -> Server:
        def say(asked: bytes, send: Callable[[bytes], None]) -> None:
            if how == "headers byte by byte":
                send(b"HTTP/1.1 200 OK\r\nX-A: ")
            else:
                send(HEAD + b"\r\n")
            while not server.ended.wait(0.02 if "byte by byte" in how else 0.0):
                send(b"a" if "byte by byte" in how else b" " * 65_536)

        server = Server(say)
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.close()
