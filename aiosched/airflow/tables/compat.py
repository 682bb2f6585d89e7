"""`airflow.providers.common.compat`, for where it is not installed: the SDK under one name."""

from __future__ import annotations

from typing import Final

from aiosched.airflow.tables.core import NAMES as CORE
from aiosched.airflow.tables.sdk import NAMES as SDK

NAMES: Final[dict[str, dict[str, str]]] = {
    "airflow.providers.common.compat.sdk": {**CORE["airflow.exceptions"], **SDK["airflow.sdk"]},
    "airflow.providers.common.compat.assets": SDK["airflow.sdk.definitions.asset"],
}
