"""The DAGs of examples/dags, and what becomes of them."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parents[2] / "examples" / "dags"
FILES = sorted(FOLDER.glob("*.py"))
DAG_IDS = [file.stem for file in FILES]
MANUAL = {"params"}  # nothing runs before somebody asks

# What becomes of the tasks; those that are not named here succeed.
NOT_SUCCESS = {
    "branching": {"heat": "skipped", "cool": "skipped"},
    "short_circuit": {"rebuild": "skipped"},
}
