"""`LoggingMixin`: a logger whose messages are in the log of the task's attempt."""

from __future__ import annotations

import logging
from functools import cached_property


class LoggingMixin:
    """Base of classes that log: `self.log`."""

    _log_config_logger_name: str | None = None
    _logger_name: str | None = None

    def __init__(self, context: object = None) -> None:
        super().__init__()

    @cached_property
    def log(self) -> logging.Logger:
        """The logger."""
        return logging.getLogger(self._logger_name or f"aiosched.task.{type(self).__module__}.{type(self).__name__}")


class ExternalLoggingMixin:
    """Base of log handlers that show logs of another system; such handlers are not used here."""

    @property
    def log_name(self) -> str:
        """The name of the other system."""
        raise NotImplementedError(f"{type(self).__name__} has no log_name: implement it.")

    @property
    def supports_external_link(self) -> bool:
        """Whether the other system has pages to link to."""
        return False
