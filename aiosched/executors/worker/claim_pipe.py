"""Tracks which attempts of a worker's line have begun, with a pipe that scheduler and worker both read.

The scheduler writes a ticket, a number, for each attempt that it sends to a worker. The worker draws the ticket of an
attempt before it begins it, and the scheduler draws the remaining tickets to take attempts back: the kernel gives each
ticket to one of them. So no worker has to answer a question, which is impossible in the middle of a plain function or
after its death.

A ticket is written before its attempt is sent. If a worker has an attempt but finds no ticket for it, the attempt was
taken back.
"""

from __future__ import annotations

import os
import struct
import sys
from typing import Final

_TICKET: Final = struct.Struct("=I")  # pipe reads and writes of so few aligned bytes are atomic
_MOST: Final = 65_536  # bytes: more than a pipe holds


class ClaimPipe:
    """The scheduler's side; the worker draws tickets from `descriptor`."""

    def __init__(self) -> None:
        self.descriptor, self._write = os.pipe()
        os.set_blocking(self.descriptor, False)
        self._read = _own_reader(self.descriptor)
        self._last = 0
        self._open = True

    @property
    def next_ticket(self) -> int:
        """The number of the first ticket that `issue` writes."""
        return self._last + 1

    def issue(self, count: int) -> int:
        """Write `count` tickets and return the number of the first."""
        first = self.next_ticket
        self._last += count
        os.write(self._write, b"".join(map(_TICKET.pack, range(first, first + count))))
        return first

    def take_back(self) -> int:
        """Draw all remaining tickets and return their number: as many of the latest attempts never begin."""
        try:
            return len(os.read(self._read, _MOST)) // _TICKET.size if self._open else 0
        except BlockingIOError:
            return 0

    def close(self) -> None:
        """Close the descriptors; can be called twice."""
        if self._open:
            self._open = False
            for descriptor in {self.descriptor, self._read, self._write}:
                os.close(descriptor)


def _own_reader(descriptor: int) -> int:
    """A descriptor that does not share its flags with the worker's, whose task could make both wait for ever."""
    if sys.platform != "linux":
        return descriptor
    return os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def draw(descriptor: int) -> int | None:
    """Draw the next ticket, in the worker; None if there is none. Raises OSError if the pipe is closed."""
    try:
        ticket = os.read(descriptor, _TICKET.size)
    except BlockingIOError:
        return None
    if len(ticket) < _TICKET.size:
        raise BrokenPipeError("the scheduler's end is closed")
    number: int = _TICKET.unpack(ticket)[0]
    return number
