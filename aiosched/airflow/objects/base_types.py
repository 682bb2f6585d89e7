"""`NOTSET` and its kind: defaults that differ from None."""

from __future__ import annotations

from typing import Any, Final


class ArgNotSet:
    """The type of `NOTSET`: an argument that its caller left out."""

    def __repr__(self) -> str:
        return "NOTSET"


class SetDuringExecution(ArgNotSet):
    """The type of `SET_DURING_EXECUTION`: an argument that the task computes when it runs."""

    def __repr__(self) -> str:
        return "SET_DURING_EXECUTION"


NOTSET: Final = ArgNotSet()
SET_DURING_EXECUTION: Final = SetDuringExecution()


def is_arg_set(value: Any) -> bool:
    """Whether `value` is anything but `NOTSET`."""
    return value is not NOTSET
