"""What tasks start and leave behind, imported by the generated DAG files (as the module `leaving`).

Loops in bash that get out of visible: in sessions of their own, one of them an orphan by a double fork. Each says every
50 ms that it lives, in lines as those of recorder.py with the event `beat`, and nothing but a signal ends it.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from types import SimpleNamespace
from typing import Any

from tests.faults.campaign import recorder

# FAULTS_OFFSET: what the wall clock is ahead of CLOCK_MONOTONIC, in nanoseconds.
PROGRAM = r"""
say() {
    local us=${EPOCHREALTIME/[.,]/}
    printf '%s\t%s\t%s\t%s\t-1\t%s\t%s\t%s\t%s\n' "$1" "$AIRFLOW_CTX_DAG_ID" "$AIRFLOW_CTX_DAG_RUN_ID" \
        "$AIRFLOW_CTX_TASK_ID" "$AIRFLOW_CTX_TRY_NUMBER" "$BASHPID" "$FAULTS_SCHEDULER" \
        "$(( us * 1000 - FAULTS_OFFSET ))" >> "$FAULTS_RECORDS/bash-$BASHPID"
}
beat() { while :; do say beat; sleep 0.05; done; }
export -f say beat
leave() {
    (setsid bash -c beat > /dev/null 2>&1 < /dev/null &)
    setsid bash -c beat > /dev/null 2>&1 < /dev/null &
}
leave
"""


def command(seconds: float, fails: bool) -> str:
    """A task in bash that takes `seconds`, and leaves processes behind; with `fails` its first try fails."""
    failing = f"""
if {str(fails).lower()} && [ "$AIRFLOW_CTX_TRY_NUMBER" = 1 ]; then
    say failed
    echo "fails in its first try, on purpose"
    exit 1
fi
"""
    working = f"for (( n = 0; n < {max(1, round(seconds / 0.05))}; n++ )); do say alive; sleep 0.05; done"
    return f"{PROGRAM}say start\n{working}\n{failing}say done\n"


def leave(context: Any) -> None:
    """Leave processes behind, as a plain function. In the host's own process they would be the host's."""
    if os.environ["FAULTS_EXECUTOR"] == "local":
        subprocess.run(["bash", "-c", PROGRAM], env=_environment(context), check=True)


async def aleave(context: Any) -> None:
    """As `leave`, for coroutines."""
    if os.environ["FAULTS_EXECUTOR"] == "local":
        process = await asyncio.create_subprocess_exec("bash", "-c", PROGRAM, env=_environment(context))
        await process.wait()


def outside(seconds: float, fails: bool) -> None:
    """As a task under another interpreter."""
    subprocess.run(["bash", "-c", PROGRAM], check=True)
    names = {"dag_id": "AIRFLOW_CTX_DAG_ID", "run_id": "AIRFLOW_CTX_DAG_RUN_ID", "task_id": "AIRFLOW_CTX_TASK_ID"}
    told = {name: os.environ[variable] for name, variable in names.items()}
    ti = SimpleNamespace(task_id=told["task_id"], try_number=int(os.environ["AIRFLOW_CTX_TRY_NUMBER"]))
    run = SimpleNamespace(dag_id=told["dag_id"], run_id=told["run_id"])
    recorder.work({"ti": ti, "dag_run": run}, seconds, fails)


def _environment(context: Any) -> dict[str, str]:
    ti, run = context["ti"], context["dag_run"]
    return {
        **os.environ,
        "AIRFLOW_CTX_DAG_ID": run.dag_id,
        "AIRFLOW_CTX_DAG_RUN_ID": run.run_id,
        "AIRFLOW_CTX_TASK_ID": ti.task_id,
        "AIRFLOW_CTX_TRY_NUMBER": str(ti.try_number),
    }
