"""Counts attempts to apply requests, so that one that kills its owner does not kill the next owner, too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from aiosched.db.statements.inbox import WaitingRequest

MOST_ATTEMPTS: Final = 3


class RequestAttempts:
    """What one process knows of the attempts to apply requests.

    Before a request is applied, its number of attempts is stored. An attempt that this process survives, with an answer
    or an error, does not count.
    """

    def __init__(self) -> None:
        self._survived: dict[int, int] = {}  # request -> the number of attempts that was stored for one we survived

    def failed(self, request: WaitingRequest) -> int:
        """How many owners have died or stalled while they applied the request."""
        return request.attempts - (self._survived.get(request.id) == request.attempts)

    def is_poisonous(self, request: WaitingRequest) -> bool:
        """Whether no further attempt is made."""
        return self.failed(request) >= MOST_ATTEMPTS

    def begin(self, requests: Iterable[WaitingRequest]) -> dict[int, int]:
        """The numbers of attempts to store before these requests are applied."""
        return {request.id: self.failed(request) + 1 for request in requests}

    def survive(self, begun: Mapping[int, int]) -> None:
        """The process is still there after these attempts."""
        self._survived.update(begun)

    def forget(self, answered: Iterable[int]) -> None:
        """These requests do not come again."""
        for number in answered:
            self._survived.pop(number, None)
