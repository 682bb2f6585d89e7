"""PostgreSQL's protocol, as far as a proxy must know it: where messages end, and where a commit is asked for.

Source: the PostgreSQL manual, "Frontend/Backend Protocol", message flow and formats.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field

_SSL, _GSS, _CANCEL = 80877103, 80877104, 80877102
_WRITES = re.compile(r"\b(INSERT|UPDATE|DELETE|COPY)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Message:
    """One message: its type (empty for what opens a connection) and all its bytes."""

    kind: str
    raw: bytes

    @property
    def body(self) -> bytes:
        return self.raw[5:] if self.kind else self.raw[4:]


@dataclass
class Splitter:
    """Cuts one direction of a connection into messages. `opening`: it begins with messages without a type."""

    opening: bool = False
    _rest: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> list[Message]:
        """The messages that are complete now, in order."""
        self._rest += data
        found: list[Message] = []
        while (message := self._next()) is not None:
            found.append(message)
        return found

    def _next(self) -> Message | None:
        head = 0 if self.opening else 1
        if len(self._rest) < head + 4:
            return None
        size = head + struct.unpack_from("!I", self._rest, head)[0]
        if len(self._rest) < size:
            return None
        raw = bytes(self._rest[:size])
        del self._rest[:size]
        if not self.opening:
            return Message(chr(raw[0]), raw)
        if struct.unpack_from("!I", raw, 4)[0] not in (_SSL, _GSS, _CANCEL):
            self.opening = False  # that was the start-up message
        return Message("", raw)


@dataclass
class Commits:
    """Follows both directions of one connection and says which message of the client asks for a commit.

    That is a simple query COMMIT inside a transaction, or the end of a writing statement outside one
    (PostgreSQL commits it before it answers).
    """

    in_transaction: bool = False
    application: str = ""
    _texts: dict[str, str] = field(default_factory=dict)  # prepared statements by name
    _writing: bool = False  # something that writes was sent since the last Sync

    def client_says(self, message: Message) -> bool:
        """Note a message of the client; whether the server commits when it has it."""
        match message.kind:
            case "":
                words = message.body[4:].split(b"\0")
                if b"application_name" in words:
                    self.application = words[words.index(b"application_name") + 1].decode()
            case "P":
                name, statement, *_ = message.body.split(b"\0")
                self._texts[name.decode()] = statement.decode(errors="replace")
            case "B":
                bound = message.body.split(b"\0", 2)[1].decode()
                self._writing |= bool(_WRITES.search(self._texts.get(bound, "")))
            case "S":
                writing, self._writing = self._writing, False
                return writing and not self.in_transaction
            case "Q":
                text = message.body.rstrip(b"\0").decode(errors="replace").strip()
                if self.in_transaction:
                    return text.rstrip(";").upper() == "COMMIT"
                return bool(_WRITES.search(text)) and not text.upper().startswith("BEGIN")
        return False

    def server_says(self, message: Message) -> bool:
        """Note a message of the server; whether it ends an answer (ReadyForQuery)."""
        if message.kind == "Z":
            self.in_transaction = message.body != b"I"
        return message.kind == "Z"
