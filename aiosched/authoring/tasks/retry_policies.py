"""Retry policies as objects: whether and when a failed try is retried, by its exception.

    retry_policy=ExceptionRetryPolicy(rules=[
        RetryRule(exception="requests.exceptions.HTTPError", retry_delay=timedelta(minutes=5)),
        RetryRule(exception=[PermissionError, KeyError], action=RetryAction.FAIL, reason="no use in trying again"),
    ])

A policy is asked in the worker, only while the task has a retry left, and never for `FailTask`: it can end a task
earlier or change the delay, but not add retries. Source: the semantics reference, section 22.4.
"""

from __future__ import annotations

import importlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from aiosched.authoring.base import checks
from aiosched.errors import DagError

if TYPE_CHECKING:
    from aiosched.authoring.runtime.context import Context

logger: logging.Logger = logging.getLogger("aiosched.task.retry_policy")  # in the log of the attempt

ExceptionName: TypeAlias = type[BaseException] | str  # a class, or its import path


class RetryAction(Enum):
    """What follows a failure."""

    RETRY = "retry"
    FAIL = "fail"  # no retry
    DEFAULT = "default"  # as the task's options say


@dataclass(frozen=True)
class RetryDecision:
    """The decision of a policy; `retry_delay` None means the task's own, `reason` is logged."""

    action: RetryAction = RetryAction.DEFAULT
    retry_delay: timedelta | None = None
    reason: str | None = None

    @classmethod
    def fail(cls, reason: str | None = None) -> RetryDecision:
        """No retry."""
        return cls(RetryAction.FAIL, reason=reason)

    @classmethod
    def retry(cls, delay: timedelta | None = None, reason: str | None = None) -> RetryDecision:
        """A retry, after `delay`."""
        return cls(RetryAction.RETRY, delay, reason)

    @classmethod
    def default(cls) -> RetryDecision:
        """What the task's options say."""
        return cls()


class RetryPolicy(ABC):
    """The base class of policies: `retry_policy=MyPolicy()`."""

    @abstractmethod
    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        """What follows the failure of try `try_number` (1 for the first) with this exception.

        `max_tries` is the number of retries; the last try has the number `max_tries` + 1.
        An exception in this method is logged, and the task's options apply.
        """


@dataclass(frozen=True)
class RetryRule:
    """What follows some exceptions: classes, or their import paths, which are imported only if a try fails.

    With `match_subclasses`, subclasses count, too.
    """

    exception: ExceptionName | Sequence[ExceptionName]
    action: RetryAction = RetryAction.RETRY
    retry_delay: timedelta | None = None
    reason: str | None = None
    match_subclasses: bool = True

    def __post_init__(self) -> None:
        for one in self.named:
            is_class = isinstance(one, type) and issubclass(one, BaseException)
            if not is_class and not (isinstance(one, str) and "." in one.strip(".")):
                raise self._wrong(f"exception={one!r} is neither an exception class nor the path of one")
        if not isinstance(self.action, RetryAction):
            raise self._wrong(f"action={self.action!r} is not a RetryAction, such as RetryAction.FAIL")
        if self.retry_delay is not None and self.retry_delay < timedelta(0):
            raise self._wrong(f"retry_delay={self.retry_delay!r} is below zero")

    @property
    def named(self) -> Sequence[ExceptionName]:
        """Its exceptions as a list."""
        return [self.exception] if isinstance(self.exception, type | str) else list(self.exception)

    def matches(self, error: BaseException) -> bool:
        """Whether `error` is one of the exceptions. A path that cannot be imported is logged and matches nothing."""
        kinds = [kind for kind in map(_imported, self.named) if kind is not None]
        return isinstance(error, tuple(kinds)) if self.match_subclasses else type(error) in kinds

    @staticmethod
    def _wrong(what: str) -> DagError:
        return checks.fail(f"RetryRule: {what}. Correct it.")


class ExceptionRetryPolicy(RetryPolicy):
    """Decides by the first of its `rules` that matches the exception; by `default` if none does."""

    def __init__(self, rules: Sequence[RetryRule], default: RetryAction = RetryAction.DEFAULT) -> None:
        self.rules: list[RetryRule] = list(rules)
        self.default = default

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        """The decision of the first rule that matches."""
        for rule in self.rules:
            if rule.matches(exception):
                reason = rule.reason or f"a rule for {type(exception).__name__}"
                return RetryDecision(rule.action, rule.retry_delay, reason)
        return RetryDecision(self.default)


def _imported(name: ExceptionName) -> type[BaseException] | None:
    if isinstance(name, type):
        return name
    module, _, attribute = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError):
        logger.warning("retry_policy: there is no exception %r, so its rule matches nothing", name)
        return None
    return found if isinstance(found, type) and issubclass(found, BaseException) else None
