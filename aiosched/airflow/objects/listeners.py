"""`airflow.listeners`: marks of functions that listen to states. aiosched calls callbacks and notifiers instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def hookimpl(function: F | None = None, **_: Any) -> Any:
    """Mark a function as a listener; it is never called here."""
    return function if function is not None else (lambda marked: marked)


class ListenerManager:
    """Takes listeners and calls none."""

    has_listeners = False

    def add_listener(self, listener: Any) -> None:
        """Accept a listener, which is never called: use callbacks of DAGs and tasks."""

    def clear(self) -> None:
        """Forget all listeners."""


_manager: Final = ListenerManager()


def get_listener_manager() -> ListenerManager:
    """The manager of this process."""
    return _manager
