"""Runs the DAG of a file as `aiosched dags test` does, with the provider packages of a folder; writes states as JSON.

python -m tests.providers.run_file FOLDER FILE
"""

from __future__ import annotations

import json
import site
import sys
from pathlib import Path

from aiosched.airflow.finder import install
from aiosched.authoring.dag.loader import load_file


def main(folder: str, file: str) -> None:
    """Load the file, run its one DAG and write what became of each task."""
    site.addsitedir(folder)
    install("compat")
    [dag] = load_file(Path(file), root=Path(file).parent).dags
    run = dag.test()
    tasks = {
        one.task_id: {"state": one.state, "reason": one.details or one.reason, "xcoms": run.xcoms.get(one.task_id, {})}
        for one in run.tasks
    }
    sys.stdout.write(json.dumps({"state": run.state, "tasks": tasks}, default=str) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
