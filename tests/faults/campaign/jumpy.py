"""`python -m tests.faults.campaign.jumpy serve …`: the command line with a wall clock that jumps as a file says.

FAULTS_CLOCK names the file; it holds the seconds by which the clock is wrong.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from aiosched.cli import main
from aiosched.clock import SystemClock


def wrong_now(self: SystemClock) -> datetime:
    """The time of day, as wrong as the file says."""
    try:
        seconds = float(Path(os.environ["FAULTS_CLOCK"]).read_text() or "0")
    except (OSError, ValueError):
        seconds = 0.0
    return datetime.now(UTC) + timedelta(seconds=seconds)


SystemClock.now = wrong_now  # type: ignore[method-assign]

if __name__ == "__main__":
    main()
