"""`python -m tests.airflow.parse_examples ROOT SITE FILE…`: a line of JSON for each file, imported in a child process.

SITE is a folder with provider packages. Libraries that are not installed are empty modules.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from aiosched.airflow.finder import install
from aiosched.authoring.dag.loader import load_file
from tests.airflow.empty_modules import EmptyModules


def main(root: str, site: str, *files: str) -> None:
    """Import each file; see the module."""
    sys.path.append(site)
    sys.meta_path.append(EmptyModules())
    install("compat")
    for file in files:
        child = os.fork()
        if child == 0:
            print(json.dumps({"file": os.path.relpath(file, root), "problem": _problem(root, file)}), flush=True)
            os._exit(0)
        os.waitpid(child, 0)


def _problem(root: str, file: str) -> str | None:
    """Why a file cannot be read; None if it can."""
    try:
        for dag in load_file(Path(file), root=Path(root)).dags:
            dag.to_spec()
    except BaseException as error:
        return f"{type(error).__name__}: {error}"[:300]
    return None


if __name__ == "__main__":
    main(*sys.argv[1:])
