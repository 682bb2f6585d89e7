"""Words of Airflow 2 for `DAG(access_control=…)`; see aiosched.core.access.dag_control."""

from __future__ import annotations

from typing import Final

ACTION_CAN_CREATE: Final = "can_create"
ACTION_CAN_READ: Final = "can_read"
ACTION_CAN_EDIT: Final = "can_edit"
ACTION_CAN_DELETE: Final = "can_delete"
ACTION_CAN_ACCESS_MENU: Final = "menu_access"
RESOURCE_DAG: Final = "DAGs"
RESOURCE_DAG_RUN: Final = "DAG Runs"
DAG_ACTIONS: Final = frozenset({ACTION_CAN_READ, ACTION_CAN_EDIT, ACTION_CAN_DELETE})
