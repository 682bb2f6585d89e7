"""The virtual environment of each peer: made once for its requirements and this Python, then used again."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from benchmarks.peers.catalogue import Kind

REQUIREMENTS: Final = Path(__file__).parent / "requirements"
_COMPLETE: Final = "complete"  # a file in an environment in which everything is installed
_ROOT: Final = Path(__file__).parents[2]


class NotInstalled(Exception):
    """A peer that cannot be installed here, with what pip said."""


def cache_folder() -> Path:
    """Where environments and measurements stay: $XDG_CACHE_HOME/aiosched-benchmarks, or below ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "aiosched-benchmarks"


async def python_for(kind: Kind, cache: Path) -> str:
    """The interpreter that runs this peer. Raises NotInstalled."""
    if kind.own:
        return sys.executable
    requirements = REQUIREMENTS / f"{kind.module}.txt"
    made_for = hashlib.sha256(f"{sys.version}\n{requirements.read_text()}".encode()).hexdigest()[:12]
    folder = cache / f"{kind.name}-{made_for}"
    python = folder / "bin" / "python"
    if not (folder / _COMPLETE).exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        await _do(kind, sys.executable, "-m", "venv", str(folder))
        await _do(kind, str(python), "-m", "pip", "install", "-q", "--requirement", str(requirements))
        (folder / _COMPLETE).touch()
    return str(python)


async def _do(kind: Kind, *command: str) -> None:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=asyncio.subprocess.STDOUT)
    said = (await process.communicate())[0].decode(errors="replace")
    if process.returncode:
        errors = [line for line in said.splitlines() if "ERROR" in line] or said.splitlines()[-1:]
        raise NotInstalled(f"{kind.title} could not be installed: {' '.join(errors[:1])}")


def environment_of(kind: Kind, place: Path) -> Mapping[str, str]:
    """The environment of a peer's process: of our code others can import this package only, by links in `place`."""
    folder = place / "path"
    folder.mkdir(exist_ok=True)
    for name in ("benchmarks", "aiosched") if kind.own else ("benchmarks",):
        link = folder / name
        if not link.is_symlink():
            link.symlink_to(_ROOT / name)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("AIOSCHED_", "PYTHON", "VIRTUAL_"))}
    return {**kept, "PYTHONPATH": str(folder)}
