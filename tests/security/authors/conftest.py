"""What the tests of authors use of the tests of executors."""

from __future__ import annotations

from tests.executors.conftest import (
    dags_folder,
    forkservers,
    logs_folder,
    no_process_left,
    reports,
    start_local,
)

__all__ = ["dags_folder", "forkservers", "logs_folder", "no_process_left", "reports", "start_local"]
