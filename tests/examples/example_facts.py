"""The DAGs of examples/dags, and what becomes of them."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parents[2] / "examples" / "dags"
FILES = sorted(FOLDER.glob("*.py"))
SEVERAL = {  # files with more than the one DAG that has their name
    "assets": [
        "assets_orders",
        "assets_customers",
        "assets_report",
        "assets_alert",
        "assets_nightly",
        "assets_summary",
    ],
    "asset_checks": ["asset_checks", "asset_checks_report"],
    "partitions": ["partitions_load", "partitions_day", "partitions_region"],
    "trigger_dag": ["trigger_dag_target", "trigger_dag"],
}
DAG_IDS = [dag_id for file in FILES for dag_id in SEVERAL.get(file.stem, [file.stem])]
MANUAL = {"params"}  # nothing runs before somebody asks

# What becomes of the tasks; those that are not named here succeed.
NOT_SUCCESS = {
    "clock_branches": {"old_warehouse": "skipped"},
    "standard_sensors": {"never": "skipped"},
    "start_from_trigger": {"empty": "skipped"},
    "branching": {"heat": "skipped", "cool": "skipped"},
    "mapping": {"count_rows": "skipped"},  # one of its three instances
    "short_circuit": {"rebuild": "skipped"},
}
