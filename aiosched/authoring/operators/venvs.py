"""Virtual environments of tasks: created once for each set of requirements, kept in a cache folder."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from logging import Logger
from pathlib import Path
from typing import IO, Final

from aiosched.authoring.operators.subprocesses import ProcessCommand, describe_code
from aiosched.errors import AioschedError, CommandFailed

_READY: Final = ".ready"  # a file in each complete environment


@dataclass(frozen=True, kw_only=True)
class Environment:
    """The specification of a virtual environment. `python` is a version ("3.12") or a path; None: the worker's own."""

    requirements: tuple[str, ...] = ()
    python: str | None = None
    system_site_packages: bool = True
    pip_install_options: tuple[str, ...] = ()
    index_urls: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Identifies the environment, including its interpreter."""
        text = json.dumps([asdict(self), self.interpreter()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def interpreter(self) -> str:
        """The path of the interpreter that creates it; raises AioschedError if it does not exist."""
        if self.python is None:
            return sys.executable
        name = self.python if os.sep in self.python else f"python{self.python}"
        found = shutil.which(name)
        if found is None:
            raise AioschedError(f"There is no interpreter {name!r} on this machine: install it, or name another one.")
        return found


async def ensure(environment: Environment, cache: Path, *, log: Logger, env: Mapping[str, str]) -> Path:
    """The interpreter of the environment, which is created if it is not in the cache.

    If several processes need it at once, one creates it and the others wait. Raises CommandFailed when pip fails.
    """
    folder = cache / f"venv-{environment.digest}"
    python = folder / "bin" / "python"
    if (folder / _READY).exists():
        return python
    with _lock_file(folder) as lock:
        await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)  # released when the file is closed
        if not (folder / _READY).exists():
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            known = {**env, **_indexes(environment)}
            for arguments in _commands(environment, folder):
                log.info("creating a virtual environment: %s", " ".join(arguments))
                code, last = await ProcessCommand(arguments=arguments, env=known, log=log).run()
                if code != 0:
                    raise CommandFailed(f"A virtual environment cannot be created: it {describe_code(code)}: {last!r}")
            (folder / _READY).touch()
    return python


def _lock_file(folder: Path) -> IO[str]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    return folder.with_suffix(".lock").open("w")


def cache_folder() -> Path:
    """The default cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "aiosched" / "venvs"


def _commands(environment: Environment, folder: Path) -> Iterator[Sequence[str]]:
    options = ["--system-site-packages"] if environment.system_site_packages else []
    if not environment.requirements:
        options.append("--without-pip")
    yield [environment.interpreter(), "-m", "venv", *options, str(folder)]
    if environment.requirements:
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check"]
        yield [*pip, *environment.pip_install_options, *environment.requirements]


def _indexes(environment: Environment) -> dict[str, str]:
    """The package indexes for pip: not in its command line, because they may hold passwords."""
    if not environment.index_urls:
        return {}
    first, *others = environment.index_urls
    return {"PIP_INDEX_URL": first, "PIP_EXTRA_INDEX_URL": " ".join(others)}
