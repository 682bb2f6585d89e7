"""Stopping attempts that are no longer wanted."""

from __future__ import annotations

from typing import Final

from aiosched.core.run.board import Board
from aiosched.core.run.deferral import is_trigger, trigger_key
from aiosched.core.values.messages import AttemptKey
from aiosched.core.values.states import TaskState
from aiosched.scheduler.session.session import Session

_MAY_RUN: Final = frozenset({TaskState.QUEUED, TaskState.RUNNING})  # states in which the attempt may go on


def is_held(session: Session, board: Board) -> bool:
    """Whether this very board is still held: its partition may have been given away and loaded again meanwhile."""
    return session.cache.boards.get(board.run.key) is board


def stop_attempt(session: Session, key: AttemptKey) -> None:
    """Ask the executor to end an attempt whose result is no longer wanted."""
    env, attempts = session.env, session.env.attempts
    if key in attempts.in_flight:
        attempts.ending.begin(key, None)
    grace = env.settings.core.killed_task_cleanup_time
    session.background.spawn(env.executor.cancel(key, grace), f"cancel {tuple(key)}")


def stop_unwanted(session: Session) -> None:
    """Stop unwanted attempts after loading: the commit that cancelled them may not have been confirmed."""
    attempts = session.env.attempts
    for key in [*attempts.in_flight.keys() - attempts.remote.partitions.keys(), *attempts.triggers]:
        stop_if_unwanted(session, key)


def stop_if_unwanted(session: Session, key: AttemptKey) -> None:
    """Stop an attempt, or a trigger, whose task instance no longer waits for it."""
    if not _is_wanted(session, key):
        attempts = session.env.attempts
        attempts.triggers.discard(key)
        stop_attempt(session, key)


def _is_wanted(session: Session, key: AttemptKey) -> bool:
    if (found := session.cache.find(key)) is None:
        return False
    board, instance = found
    if is_trigger(key):
        return instance.state is TaskState.DEFERRED and key == trigger_key(board.key(instance))
    return instance.state in _MAY_RUN and key == board.key(instance)
