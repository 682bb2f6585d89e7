"""The heartbeat of an async worker's event loop, and the attempt that blocks it.

The loop writes a heartbeat four times a second while attempts run. If it is late, a thread of the worker
(loop_watch.py) writes which attempt blocks the loop, and where. Both are in a page that the scheduler reads
(blocked_loops.py): a blocked worker cannot send messages, and a worker whose interpreter is held by C code cannot even
report the attempt.
"""

from __future__ import annotations

import mmap
import struct
from typing import Final

import msgspec

from aiosched.core.values.messages import AttemptKey
from aiosched.executors.worker.shared_page import INSTANT_SIZE, SharedPage

PERIOD: Final = 0.25  # seconds between two heartbeats
_SIZE: Final = struct.Struct("=I")
_SIZE_AT: Final = INSTANT_SIZE
_TEXT_AT: Final = _SIZE_AT + _SIZE.size
_MOST: Final = mmap.PAGESIZE - _TEXT_AT  # bytes


class BlockingAttempt(msgspec.Struct, frozen=True):
    """The attempt that blocks a loop, if known, and the blocking line."""

    key: AttemptKey | None
    where: str


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(BlockingAttempt)


class LoopHeartbeat(SharedPage):
    """The page of one worker. Times are in seconds of the monotonic clock, which all processes of a machine share."""

    last = SharedPage.instant  # the last heartbeat; 0 while nothing runs

    @property
    def blocker(self) -> BlockingAttempt | None:
        """The blocking attempt; None if there is none, or it is unknown."""
        size = _SIZE.unpack_from(self.memory, _SIZE_AT)[0]
        try:
            return _decoder.decode(self.memory[_TEXT_AT : _TEXT_AT + size]) if size else None
        except msgspec.MsgspecError:  # it is being written
            return None

    @blocker.setter
    def blocker(self, blocker: BlockingAttempt | None) -> None:
        text = b"" if blocker is None else _encoder.encode(blocker)
        if len(text) > _MOST and blocker is not None:
            text = _encoder.encode(BlockingAttempt(blocker.key, blocker.where[:500]))
        _SIZE.pack_into(self.memory, _SIZE_AT, 0)
        self.memory[_TEXT_AT : _TEXT_AT + len(text)] = text
        _SIZE.pack_into(self.memory, _SIZE_AT, len(text))
