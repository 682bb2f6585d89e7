"""The folder of a run, in all places with files of attempts: logs, and values in remote storage. Relative, with `/`.

dag_id=sales/run_id=manual__2026-...
"""

from __future__ import annotations

import hashlib
from typing import Final

_LONGEST_NAME: Final = 255  # bytes in one path component, on common file systems


def folder_of_run(dag_id: str, run_id: str) -> str:
    """The folder with everything of a run."""
    return f"{folder_part('dag_id', dag_id)}/{folder_part('run_id', run_id)}"


def folder_part(name: str, value: str) -> str:
    """One component of a path, which says what it is; long values are cut and made unique."""
    part = f"{name}={value}".replace("/", "%2F").replace("\0", "%00")
    raw = part.encode("utf-8", "surrogateescape")
    if len(raw) <= _LONGEST_NAME:
        return part
    digest = hashlib.sha256(raw).hexdigest()[:16]
    return raw[: _LONGEST_NAME - 17].decode("utf-8", "ignore") + "-" + digest


def is_in_run(path: str, dag_id: str, run_id: str) -> bool:
    """Whether a path, which code of an author has chosen, leads to a file of this run."""
    return path.startswith(f"{folder_of_run(dag_id, run_id)}/") and not {"", ".", ".."}.intersection(path.split("/"))
