"""Runs uv, or pip where there is no uv, to fetch and install packages into the environment of this interpreter."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from aiosched.cli.base.options import UsageProblem
from aiosched.cli.operation.provider_plan import PROVIDER, Fetched, read_distribution
from aiosched.errors import AioschedError, NotFound

_UNREACHABLE: Final = re.compile(
    r"connection|timed out|name resolution|network is unreachable|dns error|error sending request|proxy", re.I
)
_UNKNOWN: Final = re.compile(r"no matching distribution|was not found in the package registry|no solution found", re.I)


@dataclass(frozen=True)
class Installer:
    """The command that installs, and the folder that it installs into; None for the environment itself."""

    command: tuple[str, ...]
    target: Path | None = None

    @classmethod
    def found(cls, target: Path | None = None) -> Installer:
        """uv if it is there, else pip. Raises UsageProblem when there is neither."""
        if (uv := shutil.which("uv")) is not None:
            return cls((uv, "pip", "install", "--quiet", "--python", sys.executable), target)
        if importlib.util.find_spec("pip") is not None:
            return cls((sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"), target)
        raise UsageProblem(
            "There is neither uv nor pip to install with. Install one of them: https://docs.astral.sh/uv"
        )

    def read(self, requirement: str) -> Fetched:
        """The distribution that is installed, if it fits; else that of the index. Raises NotFound, AioschedError."""
        wanted = Requirement(requirement)
        for distribution in distributions(path=sys.path if self.target is None else [str(self.target)]):
            if canonicalize_name(distribution.metadata["Name"]) == canonicalize_name(wanted.name):
                if wanted.specifier.contains(distribution.version, prereleases=True):
                    return read_distribution(distribution)
                break
        return self.fetch(requirement)

    def fetch(self, requirement: str) -> Fetched:
        """Read a distribution of the index, into a folder that is removed again. Raises NotFound, AioschedError."""
        with tempfile.TemporaryDirectory(prefix="aiosched-providers-") as folder:
            self._run("--no-compile", "--no-deps", "--target", folder, requirement)
            name = canonicalize_name(Requirement(requirement).name)
            for distribution in distributions(path=[folder]):
                if canonicalize_name(distribution.metadata["Name"]) == name:
                    return read_distribution(distribution)
        raise AioschedError(f"{requirement} was fetched, and is no package with metadata: it cannot be installed.")

    def install(self, requirements: Sequence[str], *, alone: bool) -> None:
        """Install, with bytecode; with `alone` without what they require."""
        if not requirements:
            return
        options = ["--compile", *(["--no-deps"] if alone else [])]  # uv makes none unless asked
        if self.target is None:
            self._run(*options, *requirements)
            return
        with tempfile.TemporaryDirectory(prefix="aiosched-providers-") as folder:  # pip does not merge into `airflow/`
            self._run(*options, "--target", folder, *requirements)
            _remove_other_versions(Path(folder), self.target)
            shutil.copytree(folder, self.target, dirs_exist_ok=True)

    def _run(self, *arguments: str) -> None:
        done = subprocess.run([*self.command, *arguments], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
        said = "\n".join(line for line in (done.stderr or done.stdout).splitlines() if not line.startswith("WARNING"))
        asked = ", ".join(one for one in arguments if not one.startswith("--") and "/" not in one)
        if _UNKNOWN.search(said) and not _UNREACHABLE.search(done.stderr):
            named = "" if PROVIDER in asked else f" Airflow's own are named {PROVIDER}…."
            raise NotFound(f"The package index has no {asked}: check name and version.{named} It said: {_last(said)}")
        if _UNREACHABLE.search(done.stderr):
            raise AioschedError(f"The package index cannot be reached for {asked}: {_last(said)}")
        raise AioschedError(f"{Path(self.command[0]).name} could not install {asked}:\n{said.strip()}")


def _remove_other_versions(new: Path, target: Path) -> None:
    """Remove what `target` has of the distributions in `new`, in other versions: files of two versions do not mix."""
    versions = {canonicalize_name(one.metadata["Name"]): one.version for one in distributions(path=[str(new)])}
    for old in [*distributions(path=[str(target)])]:
        if versions.get(canonicalize_name(old.metadata["Name"]), old.version) == old.version:
            continue
        files = [Path(str(old.locate_file(file))).resolve() for file in old.files or ()]
        for file in files:
            if file.is_relative_to(target.resolve()):
                file.unlink(missing_ok=True)
        for folder in {file.parent for file in files if file.name == "METADATA"}:
            shutil.rmtree(folder, ignore_errors=True)


def _last(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else "nothing"
