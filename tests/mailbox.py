"""An SMTP server for tests: keeps what it is sent, and delivers nothing."""

from __future__ import annotations

import contextlib
import json
import socketserver
import threading
from collections.abc import Iterator
from email import message_from_string, policy
from email.message import EmailMessage

Envelope = tuple[str, list[str]]  # the line MAIL FROM, and the addresses of those who get it


class Mailbox:
    """The messages that were sent, in their order, and their envelopes."""

    def __init__(self) -> None:
        self.envelopes: list[Envelope] = []
        self.messages: list[EmailMessage] = []
        mailbox = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self.wfile.write(b"220 here\r\n")
                sender, receivers = "", []
                while line := self.rfile.readline().decode().strip():
                    word = line.split(" ")[0].upper().split(":")[0]
                    if word == "MAIL":
                        sender, receivers = line, []
                    elif word == "RCPT":
                        receivers.append(line.partition("<")[2].rstrip(">"))
                    if word == "DATA":
                        self.wfile.write(b"354 go on\r\n")
                        text = b"".join(iter(self.rfile.readline, b".\r\n")).decode()
                        mailbox.messages.append(message_from_string(text, policy=policy.default))
                        mailbox.envelopes.append((sender, receivers))
                    self.wfile.write(b"221 bye\r\n" if word == "QUIT" else b"250 fine\r\n")
                    if word == "QUIT":
                        return

        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)

    @property
    def fields(self) -> dict[str, object]:
        """Those of a connection to it."""
        extra = {"disable_ssl": True, "disable_tls": True, "from_email": "ops@example.com"}
        return {"conn_type": "smtp", "host": "127.0.0.1", "port": self.server.server_address[1], "extra": extra}

    @property
    def connection(self) -> str:
        """The same as JSON."""
        return json.dumps(self.fields)

    @contextlib.contextmanager
    def open(self) -> Iterator[Mailbox]:
        """Take mails."""
        thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            self.server.shutdown()
            thread.join()
            self.server.server_close()
