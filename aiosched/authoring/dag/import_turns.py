"""Who imports DAG files in this process, and who unloads their modules.

Files of one folder are imported side by side. The modules of several folders have the same names, so that only those of
one can be in use: a file of another folder waits until nothing is imported. Modules are unloaded only while nothing is
imported, so that what an import gets fits together. An import beyond its time limit is not waited for: when it ends,
its modules may fit no others, and all are unloaded again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class AnotherInUse(Exception):
    """A file of another folder is being imported for too long; its name is the argument."""


@dataclass(slots=True, eq=False)
class _UnderWay:
    folder: Hashable
    file: str
    until: float  # monotonic second of its time limit
    is_overtaken: bool = False  # modules were unloaded meanwhile


class ImportTurns(Generic[T]):
    """The turns of all imports of one cache of DAG files; its methods are called in the threads that import."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._imports: list[_UnderWay] = []
        self._is_unloading = False
        self.is_mixed: bool = False  # an import that nobody waited for has ended since modules were unloaded

    @contextmanager
    def importing(self, folder: Hashable, file: str, use: Callable[[], T], *, limit: float) -> Iterator[T]:
        """Import a file of this folder in the block. `use`, whose result is given, makes the folder the one in use.

        Raises AnotherInUse if that takes longer than the time limit of imports, in seconds.
        """
        with self._change:
            if not self._change.wait_for(lambda: not self._is_unloading and self._may_be_used(folder), limit):
                raise AnotherInUse(next((each.file for each in self._imports), "others"))
            used = use()
            this = _UnderWay(folder, file, time.monotonic() + limit)
            self._imports.append(this)
        try:
            yield used
        finally:
            with self._change:
                self._imports.remove(this)
                self.is_mixed |= this.is_overtaken
                self._change.notify_all()

    def unload(self, unload: Callable[[], Any]) -> None:
        """Call `unload` while nothing is imported, and nobody begins to. Call it outside of `importing`."""
        with self._change:
            self._change.wait_for(lambda: not self._is_unloading)
            self._is_unloading = True
            try:
                while waiting := [each.until for each in self._imports if each.until > time.monotonic()]:
                    self._change.wait(max(min(waiting) - time.monotonic(), 0.001))
                unload()
                self.is_mixed = False
                for each in self._imports:
                    each.is_overtaken = True
            finally:
                self._is_unloading = False
                self._change.notify_all()

    @contextmanager
    def staying(self) -> Iterator[None]:
        """Nothing is unloaded during the block, which must not wait for anything."""
        with self._change:
            yield

    def _may_be_used(self, folder: Hashable) -> bool:
        return all(each.folder == folder for each in self._imports)
