"""Operators that ask people."""

from __future__ import annotations

from typing import Final

_OPERATORS: Final = "aiosched.authoring.operators.human_input:"

NAMES: Final[dict[str, dict[str, str]]] = {
    "airflow.providers.standard.operators.hitl": {
        "ApprovalOperator": _OPERATORS,
        "HITLBranchOperator": _OPERATORS,
        "HITLEntryOperator": _OPERATORS,
        "HITLOperator": _OPERATORS,
    },
    "airflow.providers.standard.exceptions": {
        "HITLRejectException": _OPERATORS,
        "HITLTimeoutError": _OPERATORS,
        "HITLTriggerEventError": f"{_OPERATORS}HITLTimeoutError",
    },
    "airflow.providers.standard.triggers.hitl": {
        "HITLTrigger": "aiosched.authoring.triggers.human_input:HumanInputTrigger",
    },
}
