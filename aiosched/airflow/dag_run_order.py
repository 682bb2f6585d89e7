"""`DagRunOrder` of Airflow 1.10: what `TriggerDagRunOperator(python_callable=…)` gives its function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class DagRunOrder:
    """The run to start: its id and its conf. A function that returns None starts none."""

    run_id: str | None = None
    payload: Any = None
