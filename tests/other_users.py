"""Another user of this machine for tests that run as root, and a Python that this user can run."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import aiosched
from aiosched.other_user import OtherUser, command_as, other_user

NOBODY = "nobody"


def nobody() -> OtherUser:
    """The user as whom nothing else runs."""
    return other_user(NOBODY, "the test")


def environment() -> dict[str, str]:
    """That of this process, with the path of its packages: another interpreter finds them."""
    places = [str(Path(aiosched.__file__).parents[1]), *(entry for entry in sys.path if "site-packages" in entry)]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("AIOSCHED")}
    return clean | {"PYTHONPATH": os.pathsep.join(places), "PYTHONDONTWRITEBYTECODE": "1"}


@cache
def shared_python() -> str:
    """A Python of this version that every user can run: this one may be in root's home."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    tried = [sys.executable, *(f"{folder}/{version}" for folder in ("/usr/local/bin", "/usr/bin", "/opt/python/bin"))]
    for python in tried:
        words = command_as(nobody(), [python, "-c", "import typer, aiosched.executors.worker.forkserver"])
        if Path(python).exists() and subprocess.run(words, env=environment(), capture_output=True).returncode == 0:
            return python
    packages = ", ".join(entry for entry in sys.path if "site-packages" in entry)
    pytest.skip(f"{NOBODY} can run none of {', '.join(tried)} with the packages in {packages}: a folder is closed")
