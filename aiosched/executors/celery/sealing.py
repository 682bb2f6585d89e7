"""What lies in a broker: jobs that are sealed for the workers of their team.

Whoever reaches the broker can hold up what is in it. It cannot claim an attempt, since its token is encrypted, nor let
a worker begin one of its own, since that would not open. Source: docs/decisions/0064-sealed-messages.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from aiosched.config import Settings
from aiosched.config.secrecy import split_keys
from aiosched.core.values.worker_messages import Job
from aiosched.errors import ConfigError


class SealedJobs(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a message. `held`: plain functions hold a slot of their worker, as Celery knows it, until they end."""

    jobs: list[Job]
    held: bool = True


class Seals:
    """The keys of `celery.keys` and `celery.team_keys`. Raises ConfigError without any.

    Of several keys the first one seals, and all open.
    """

    def __init__(self, settings: Settings) -> None:
        keys, by_team = settings.celery.keys, settings.celery.team_keys or {}
        if keys is None:
            raise ConfigError(
                "The executor 'celery' needs a key that its schedulers and workers have, and nobody else: make one "
                "with `aiosched db make-key`, and set celery.keys (AIOSCHED__CELERY__KEYS__FILE names its file)."
            )
        self._everybody = _fernet([keys])
        self._teams = {team: _fernet([own]) for team, own in by_team.items()}
        self._all = _fernet([keys, *by_team.values()])

    def owner(self, team: str | None) -> str | None:
        """The team, if it has keys and queues of its own; else None."""
        return team if team in self._teams else None

    def seal(self, jobs: Sequence[Job], *, held: bool) -> str:
        """The text of a message, for workers of the team of the first job: give it jobs of one owner."""
        cipher = self._teams.get(jobs[0].team or "", self._everybody)
        return cipher.encrypt(msgspec.json.encode(SealedJobs(jobs=list(jobs), held=held))).decode()

    def open(self, text: object) -> SealedJobs | None:
        """What is in a message; None if it was not sealed with one of these keys."""
        try:
            return msgspec.json.decode(self._all.decrypt(str(text)), type=SealedJobs)
        except (InvalidToken, ValueError, msgspec.MsgspecError):
            return None


def _fernet(keys: Iterable[str]) -> MultiFernet:
    return MultiFernet([Fernet(key) for some in keys for key in split_keys(some)])
