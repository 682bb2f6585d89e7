"""Which attempts of a worker's line have begun: a pipe that the scheduler and the worker both read.

The scheduler writes a ticket, a number, for each attempt that it sends to a worker. The worker
draws the ticket of an attempt before it begins it, and the scheduler draws what is left when it
wants attempts back: the kernel gives each ticket to one of them. So no worker has to answer a question: one in the
middle of a plain function could not, nor could a dead one.

A ticket is written before its attempt is sent. A worker that holds an attempt and finds no ticket for it knows that it
was taken back.
"""

from __future__ import annotations

import os
import struct
from typing import Final

_TICKET: Final = struct.Struct("=I")  # pipes keep writes and reads of so few aligned bytes in one piece
_MOST: Final = 65_536  # bytes: more than a pipe holds


class ClaimPipe:
    """The scheduler's side; `descriptor` is what the worker draws from."""

    def __init__(self) -> None:
        self.descriptor, self._write = os.pipe()
        os.set_blocking(self.descriptor, False)
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
        """Draw all that are left, and say how many: so many of the attempts sent last have not begun and never will."""
        try:
            return len(os.read(self.descriptor, _MOST)) // _TICKET.size if self._open else 0
        except BlockingIOError:
            return 0

    def close(self) -> None:
        """Give the descriptors back; may be called twice."""
        if self._open:
            self._open = False
            os.close(self.descriptor)
            os.close(self._write)


def draw(descriptor: int) -> int | None:
    """The next ticket, in the worker; None when there is none. Raises OSError when the pipe is gone."""
    try:
        ticket = os.read(descriptor, _TICKET.size)
    except BlockingIOError:
        return None
    if len(ticket) < _TICKET.size:
        raise BrokenPipeError("the scheduler's end is closed")
    number: int = _TICKET.unpack(ticket)[0]
    return number
