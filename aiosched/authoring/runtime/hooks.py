"""`BaseHook`: the base of classes that talk to a service by its connection.

BaseHook.get_hook("sales")               the hook for the type of the connection, from the installed providers
BaseHook.get_connection("sales")         the connection itself
"""

from __future__ import annotations

import logging
from functools import cached_property
from typing import Any

from aiosched.authoring.runtime.connections import Connection


class BaseHook:
    """Base of hooks: subclasses implement `get_conn`, which returns the service's client."""

    def __init__(self, logger_name: str | None = None) -> None:
        super().__init__()
        self._logger_name = logger_name

    @classmethod
    def get_connection(cls, conn_id: str) -> Connection:
        """`Connection.get(conn_id)`."""
        return Connection.get(conn_id)

    @classmethod
    async def aget_connection(cls, conn_id: str) -> Connection:
        """`await Connection.aget(conn_id)`."""
        return await Connection.aget(conn_id)

    @classmethod
    def get_connections(cls, conn_id: str) -> list[Connection]:
        """The one connection of that id, as a list."""
        return [cls.get_connection(conn_id)]

    @classmethod
    def get_hook(cls, conn_id: str, hook_params: dict[str, Any] | None = None) -> Any:
        """The hook of an installed provider for this connection. Raises NotFound, and ConfigError without one."""
        return cls.get_connection(conn_id).get_hook(hook_params=hook_params)

    @classmethod
    async def aget_hook(cls, conn_id: str, hook_params: dict[str, Any] | None = None) -> Any:
        """As `get_hook`, for coroutines."""
        return (await cls.aget_connection(conn_id)).get_hook(hook_params=hook_params)

    def get_conn(self) -> Any:
        """The client of the service."""
        raise NotImplementedError(f"{type(self).__name__} has no get_conn(self): implement it.")

    @cached_property
    def log(self) -> logging.Logger:
        """The logger. Its messages are in the log of the task's attempt."""
        name = getattr(self, "_logger_name", None)  # a subclass need not call this __init__
        return logging.getLogger(name or f"aiosched.task.{type(self).__module__}.{type(self).__name__}")

    @classmethod
    def get_connection_form_widgets(cls) -> dict[str, Any]:
        """Fields of the connection's form, for hooks that define their own; never called here."""
        return {}

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """Names and examples of the connection's fields, for hooks that define their own."""
        return {"hidden_fields": [], "relabeling": {}, "placeholders": {}}


class DiscoverableHook:
    """What a hook declares about its connections; a hint for type checkers."""

    conn_name_attr: str
    default_conn_name: str
    conn_type: str
    hook_name: str
