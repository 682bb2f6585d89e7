"""Whether virtual environments can be made here."""

from __future__ import annotations

from importlib.util import find_spec
from shutil import which


def is_venv_installed() -> bool:
    """Whether there is uv, virtualenv or venv."""
    return which("uv") is not None or which("virtualenv") is not None or find_spec("venv") is not None
