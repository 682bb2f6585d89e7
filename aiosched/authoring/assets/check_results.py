"""What the function of a check returns: True, False, or a `CheckResult`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiosched.authoring.runtime.xcom_values import named_parts
from aiosched.core.values.asset_checks import LONGEST_MESSAGE, CheckStatus
from aiosched.core.values.json_bounds import find_problem
from aiosched.core.values.masking import secrets
from aiosched.core.values.texts import a_type, storable, without_escapes
from aiosched.errors import AioschedError


@dataclass(frozen=True)
class CheckResult:
    """What a check found: `status` is "pass", "warn" or "fail". `metadata` is shown beside the message.

    A message is cut after 2,000 characters. Raises ValueError and TypeError for what is no result.
    """

    status: str
    message: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.status, str) or self.status not in set(CheckStatus):
            raise ValueError(f"CheckResult(status={self.status!r:.80}) is wrong: give 'pass', 'warn' or 'fail'.")
        if not isinstance(self.message, str):
            raise TypeError(f"CheckResult(message=…) is {a_type(self.message)}: give text.")
        if not isinstance(self.metadata, Mapping):
            raise TypeError(f"CheckResult(metadata=…) is {a_type(self.metadata)}: give a dict of values by name.")
        try:
            problem = find_problem(named_parts(self.metadata), "it")
        except TypeError as error:
            raise TypeError(f"CheckResult(metadata=…) cannot be stored: {error}.") from None
        if problem is not None:
            raise ValueError(f"CheckResult(metadata=…) cannot be stored: {problem}.")

    def shown(self) -> dict[str, Any]:
        """The arguments of the service `asset_check` that say what was found, without secrets."""
        message = storable(secrets.redact(without_escapes(self.message)))
        if len(message) > LONGEST_MESSAGE:
            message = f"{message[: LONGEST_MESSAGE - 1]}…"
        metadata = secrets.redact_value(named_parts(self.metadata))
        return {"status": str(self.status), "message": message, "metadata": metadata}


def result_of(value: Any, task_id: str) -> CheckResult:
    """The result that a function returned. Raises AioschedError for anything but True, False and a CheckResult."""
    if isinstance(value, CheckResult):
        return value
    if value is True or value is False:
        return CheckResult("pass" if value else "fail")
    kind = "None" if value is None else a_type(value)
    raise AioschedError(
        f"The check {task_id!r} returned {kind}: return True, False or CheckResult(status=…, message=…). "
        "Of a value that is only like a boolean, as those of numpy are, return bool(value)."
    )
