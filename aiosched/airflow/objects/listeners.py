"""`airflow.listeners.listener`: the manager of listeners. Those of plugins are called (authoring/plugins)."""

from __future__ import annotations

from typing import Any, Final


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
