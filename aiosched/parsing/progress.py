"""How far a parser is: its first pass over the files, and what it has last stored of each file.

Does not live here: which files there are (owned_files.py), and which is parsed next (parse_queue.py).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Container, Mapping
from datetime import datetime

from aiosched.db.statements.dags import StoredFile
from aiosched.parsing.claims import Conflict
from aiosched.parsing.result import ParsedFile
from aiosched.parsing.store import StoredFiles


class FirstPass:
    """Ends once each file of the first complete listing was stored. Create it in a running event loop."""

    def __init__(self) -> None:
        self.left: set[str] | None = None  # files that are not stored yet; None: not listed yet
        self.seconds: float = 0.0  # how long it took
        self._started = time.monotonic()
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def has_ended(self) -> bool:
        return self._ended.done()

    @property
    def is_complete(self) -> bool:
        """Whether all files are stored: it also ends with the parser."""
        return self.left is not None and not self.left

    def wait(self) -> asyncio.Future[None]:
        """Done at its end. Await it as often as needed."""
        return asyncio.shield(self._ended)

    def start(self) -> None:
        """The parser runs: `seconds` begin here."""
        self._started = time.monotonic()

    def begin(self, names: Collection[str]) -> None:
        """The folder was listed, and has these files. Only the first call counts."""
        if self.left is None:
            self.left = set(names)
            self.finished(())

    def finished(self, names: Collection[str]) -> None:
        """These files are stored, or do not exist any more."""
        if self.left is None or self._ended.done():
            return
        self.left.difference_update(names)
        if not self.left:
            self.seconds = time.monotonic() - self._started
            self._ended.set_result(None)

    def end(self) -> None:
        """The parser ends: nobody shall wait for the rest."""
        if not self._ended.done():
            self._ended.set_result(None)


class Outcomes:
    """What was stored last of each file of this scheduler, without its documents."""

    def __init__(self) -> None:
        self._stored: dict[str, ParsedFile] = {}
        self._adopted: dict[str, int] = {}  # files that another parser has read: the number of their DAGs
        self._conflicts: dict[str, tuple[Conflict, ...]] = {}
        self._warned: set[str] = set()  # files whose warnings may be outdated although the files are unchanged
        self._unchanged: dict[str, tuple[str, datetime, float]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._stored

    @property
    def dags(self) -> int:
        read = sum(len(one.dags) - len(self._conflicts.get(name, ())) for name, one in self._stored.items())
        return read + sum(number for name, number in self._adopted.items() if name not in self._stored)

    @property
    def errors(self) -> int:
        return sum(one.error is not None or name in self._conflicts for name, one in self._stored.items())

    def adopt(self, files: Mapping[str, StoredFile]) -> None:
        """Another parser has read these files, as the partitions were its own; they may not be read again."""
        self._adopted |= {name: len(file.dag_ids) for name, file in files.items()}

    def remember(self, result: ParsedFile, stored: StoredFiles) -> None:
        """`result` was stored, with these consequences."""
        name = result.name
        self._stored[name] = result.without_documents()
        if conflicts := stored.conflicts.get(name):
            self._conflicts[name] = conflicts
        else:
            self._conflicts.pop(name, None)
        if name in stored.warned:
            self._warned.add(name)
        else:
            self._warned.discard(name)

    def confirm(self, result: ParsedFile, now: datetime) -> bool:
        """Note that a file was parsed again and is as stored. Returns False, and notes nothing, if it is not."""
        name, stored = result.name, self._stored.get(result.name)
        settled = name not in self._conflicts and name not in self._warned
        if stored is None or not settled or stored.fingerprint != result.fingerprint:
            return False
        self._unchanged[name] = (name, now, result.seconds)
        return True

    def take_unchanged(self) -> list[tuple[str, datetime, float]]:
        """Files that were parsed again since the last call and are as stored: name, instant, seconds."""
        taken, self._unchanged = list(self._unchanged.values()), {}
        return taken

    def forget(self, names: Collection[str]) -> None:
        """What is found in these files next counts as new."""
        for name in names:
            self._stored.pop(name, None)
            self._adopted.pop(name, None)

    def keep(self, owned: Container[str], problems: Container[str]) -> None:
        """Forget all but these files; of those with `problems` what is stored stays."""
        self._stored = {n: one for n, one in self._stored.items() if n in owned or n in problems}
        self._adopted = {n: number for n, number in self._adopted.items() if n in owned}
        self._conflicts = {n: found for n, found in self._conflicts.items() if n in owned}
        self._warned = {n for n in self._warned if n in owned}

    def waiting_for(self, dag_ids: Collection[str]) -> list[str]:
        """The files with DAGs that could not have one of these ids."""
        return [name for name, found in self._conflicts.items() if any(one.dag_id in dag_ids for one in found)]
