"""Handing out what an earlier session left, and stopping what is not wanted any more."""

from __future__ import annotations

from typing import Final

from aiosched.core.run.board import Board
from aiosched.core.run.deferral import is_trigger, trigger_key
from aiosched.core.values.messages import AttemptKey
from aiosched.core.values.states import TaskState
from aiosched.scheduler.session.session import Session

_MAY_RUN: Final = frozenset({TaskState.QUEUED, TaskState.RUNNING})  # in these states the attempt may go on


def is_held(session: Session, board: Board) -> bool:
    """Whether the board is still the one that is held: its partition may have left meanwhile, and come back."""
    return session.cache.boards.get(board.run.key) is board


def stop_attempt(session: Session, key: AttemptKey) -> None:
    """Ask the executor to end an attempt whose result is not wanted any more."""
    grace = session.env.settings.core.killed_task_cleanup_time
    session.background.spawn(session.env.executor.cancel(key, grace), f"cancel {tuple(key)}")


def stop_unwanted(session: Session) -> None:
    """Stop what runs here for nobody, once everything is read: the commit that cancelled it was not answered."""
    attempts = session.env.attempts
    for key in [*attempts.in_flight.keys() - attempts.remote_attempts.keys(), *attempts.triggers]:
        if not _is_wanted(session, key):
            attempts.triggers.discard(key)
            stop_attempt(session, key)


def _is_wanted(session: Session, key: AttemptKey) -> bool:
    if (found := session.cache.find(key)) is None:
        return False
    board, instance = found
    if is_trigger(key):
        return instance.state is TaskState.DEFERRED and key == trigger_key(board.key(instance))
    return instance.state in _MAY_RUN and key == board.key(instance)
