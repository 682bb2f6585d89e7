"""Output of an attempt that cannot be written to its log: it is counted, and its end is kept in the database."""

from __future__ import annotations

import json
from typing import Final

from aiosched.core.values.messages import Attempt

TAIL: Final = 8_192  # bytes


class UnwrittenLog:
    """Why output could not be written, how many bytes, and the last of them."""

    __slots__ = ("lost", "tail", "why")

    def __init__(self, why: OSError) -> None:
        self.tail: bytes = b""
        self.lost: int = 0
        self.why: str = why.strerror or str(why)

    def add(self, data: bytes) -> None:
        """`data` is lost, too."""
        self.lost += len(data)
        self.tail = (self.tail + data)[-TAIL:]

    def told(self, attempt: Attempt, hostname: str) -> str:
        """The arguments of the service `unwritten_log`."""
        key = attempt.key
        facts = {
            "name": f"{attempt.run.dag_id}.{attempt.task_id}", "why": self.why, "lost": self.lost,
            "tail": self.tail.decode("utf-8", "replace"), "hostname": hostname,
            "task_index": key.task_index, "map_index": key.map_index,
            "try_number": None if attempt.callback is not None else abs(key.try_number),
        }  # fmt: skip
        return json.dumps(facts)
