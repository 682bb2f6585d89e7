"""What checks of assets say: pass, warn or fail, and what a result may be. Pure.

A check is a task (`@asset_check`) that reports its result to the service `asset_check` before it ends. Writing and
reading results: db/assets/checks.py, db/queries/check_queries.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec

from aiosched.core.values.json_bounds import find_problem
from aiosched.errors import Refused

LONGEST_MESSAGE: Final = 2_000  # characters
MOST_METADATA: Final = 65_536  # characters of JSON


class CheckStatus(StrEnum):
    """What a check says of its asset."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"


_BAD_FIRST: Final = (CheckStatus.FAIL, CheckStatus.WARN, CheckStatus.PASS)


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one attempt: the arguments of the service `asset_check`. The asset is what the DAG's file says."""

    task_id: str
    map_index: Annotated[int, msgspec.Meta(ge=-1, lt=2**31)]
    try_number: Annotated[int, msgspec.Meta(ge=0, lt=2**15)]
    status: CheckStatus
    message: str = ""
    metadata: dict[str, Any] = {}

    @property
    def metadata_text(self) -> str:
        """The metadata as JSON text."""
        return msgspec.json.encode(self.metadata).decode()


def read_report(args: Mapping[str, Any]) -> CheckReport:
    """The result that an attempt reports. Raises Refused for one that cannot be stored: anybody can have written it."""
    try:
        report = msgspec.convert(args, CheckReport)
    except msgspec.ValidationError as error:
        raise Refused(f"The result of a check is wrong: {error}. Return True, False or a CheckResult.") from None
    called = f"The result of the check {report.task_id!r:.80}"
    for name, value in (("message", report.message), ("metadata", report.metadata)):
        if (problem := find_problem(value, name)) is not None:
            raise Refused(f"{called} cannot be stored: {problem}.")
    if len(report.message) > LONGEST_MESSAGE:
        raise Refused(f"{called} has a message of {len(report.message):,} characters, allowed are {LONGEST_MESSAGE:,}.")
    if (size := len(report.metadata_text)) > MOST_METADATA:
        raise Refused(
            f"{called} has {size:,} characters of metadata as JSON, allowed are {MOST_METADATA:,}: store the data "
            "elsewhere, and keep a reference."
        )
    return report


def worst(statuses: Iterable[CheckStatus | str | None]) -> CheckStatus | None:
    """The one that a person needs to see first; None if there is none."""
    found = set(statuses)
    return next((status for status in _BAD_FIRST if status in found), None)
