"""Stores that fail or hang when a test says so; underneath they are real."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from aiosched.remote.folder import RemoteFolder

T = TypeVar("T")


class FailingFolder(RemoteFolder):
    """Fails while `is_down` is set, and hangs while `answers` is cleared."""

    def __init__(self, root: Path, **options: Any) -> None:
        super().__init__(f"file://{root}", setting="logs.remote", **options)
        self.is_down = False
        self.answers = threading.Event()
        self.answers.set()
        self.waiting = threading.Event()  # set while a call hangs

    def _call(self, path: str, work: Callable[[], T], **options: Any) -> T:
        def slow() -> T:
            if not self.answers.is_set():
                self.waiting.set()
                self.answers.wait()
                self.waiting.clear()
            if self.is_down:
                raise ConnectionError("no route to the store")
            return work()

        return super()._call(path, slow, **options)
