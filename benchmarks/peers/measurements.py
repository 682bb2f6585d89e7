"""What is stored of a comparison, a line of JSON each, so that one that was interrupted goes on with what is there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Session:
    """Where and when it was measured."""

    at: str  # the day, ISO 8601
    machine: str
    postgres: str
    commit_p50: float  # seconds of a durable commit of one row
    load: float  # of the machine, over a minute, before


@dataclass(frozen=True)
class Facts:
    """A peer as it was when it got ready."""

    peer: str
    versions: Mapping[str, str]
    settings: str


@dataclass(frozen=True)
class Measurement:
    """One shape on one peer. `problem` says why there are no `seconds`."""

    peer: str
    shape: str
    number: int  # of the round, from 0
    ran: str = ""  # the name of the shape in the peer's size
    tasks: int = 0
    seconds: float | None = None  # from the instant due or submitted to the end of the last body
    problem: str = ""


Entry = Session | Facts | Measurement
_TYPES = {kind.__name__: kind for kind in (Session, Facts, Measurement)}


class Log:
    """The entries of a file, in their order; what is added is written at once."""

    def __init__(self, file: Path, *, goes_on: bool) -> None:
        self._file = file
        self.entries: list[Entry] = _read(file) if goes_on and file.exists() else []
        file.parent.mkdir(parents=True, exist_ok=True)
        if not self.entries:
            file.write_text("")

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)
        with self._file.open("a") as file:
            file.write(json.dumps({type(entry).__name__: asdict(entry)}) + "\n")

    def has(self, peer: str, shape: str, number: int, ran: str) -> bool:
        """Whether this was measured, in this size."""
        wanted = peer, shape, number, ran
        return any(
            (entry.peer, entry.shape, entry.number, entry.ran) == wanted and entry.seconds is not None
            for entry in self.entries
            if isinstance(entry, Measurement)
        )


def _read(file: Path) -> list[Entry]:
    entries: list[Entry] = []
    for line in file.read_text().splitlines():
        (name, document), *_ = dict[str, Any](json.loads(line)).items()
        entries.append(_TYPES[name](**document))
    return entries
