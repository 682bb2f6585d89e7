"""Functions that run outside of the worker: as a command, in a virtual environment, under another interpreter.

A virtual environment is made when it is first needed and kept for all tasks with the same requirements (here none, so
that nothing has to be fetched). Such a function imports what it needs inside; arguments and result are plain data.
"""

import sys
import tempfile

import pendulum

from aiosched import dag, task


@dag(schedule="@once", start_date=pendulum.datetime(2025, 1, 1, tz="UTC"), catchup=False, tags=["example"])
def other_interpreters():
    @task.bash
    def count(path: str) -> str:
        return f"ls '{path}' | wc -l"

    @task.virtualenv(requirements=[], venv_cache_path=f"{tempfile.gettempdir()}/aiosched-example-venvs")
    def isolated(files: str) -> dict:
        import sys

        return {"files": int(files), "isolated": sys.prefix != sys.base_prefix}

    @task.external_python(python=sys.executable)
    def version(found: dict) -> str:
        import platform

        return f"Python {platform.python_version()} has heard of {found['files']} files"

    version(isolated(count("/")))


other_interpreters()
