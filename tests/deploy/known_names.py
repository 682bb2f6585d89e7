"""The names that files in deploy/ may use: settings as environment variables, commands and their options."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from functools import cache

from aiosched.config import SHORT_NAMES, setting_fields
from aiosched.config.sections import Settings


def known_variables() -> set[str]:
    """All settings as the environment spells them, also with the suffix for a file that has the value."""
    names = {f"AIOSCHED__{field.section}__{field.name}".upper() for field in setting_fields()} | set(SHORT_NAMES)
    return names | {f"{name}__FILE" for name in names}


@cache
def _help(*command: str) -> str:
    shown = subprocess.run(
        [sys.executable, "-m", "aiosched", *command, "--help"], capture_output=True, text=True, check=False
    )
    assert shown.returncode == 0, f"aiosched {' '.join(command)}: {shown.stderr}"
    return shown.stdout


def check_command(words: Sequence[str]) -> None:
    """An `aiosched` command line (without its first word) is one that this version understands."""
    names = [word for word in words if not word.startswith("-")][: 1 if words[0] in ("serve", "doctor") else 2]
    shown = _help(*names)
    assert [word for word in words if word.startswith("--") and word.split("=")[0] not in shown] == [], words


def seconds_to_stop(grace: float | None = None) -> float:
    """The longest time from SIGTERM to the end of `serve` that this grace allows; None: the default."""
    settings = Settings()
    return (settings.scheduler.grace if grace is None else grace) + settings.core.killed_task_cleanup_time
