"""`aiosched airflow install-command`: a program `airflow` beside `aiosched`, for scripts that call it."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from aiosched.cli.base.options import UsageProblem
from aiosched.cli.base.output import talk, write
from aiosched.errors import Refused

WORD: Final = "install-command"
_MARK: Final = "aiosched airflow install-command"  # in the second line of the program
_PROGRAM: Final = """#!{python}
# Made by `{mark}`: answers Airflow's words with aiosched's commands.
import sys

from aiosched.cli import main

main(["airflow", *sys.argv[1:]])
"""
_HELP: Final = f"""Usage: aiosched airflow {WORD} [--remove] [FOLDER]

  Makes a program `airflow` that answers Airflow's words, in FOLDER (default: where this environment has its programs).
  --remove takes it away again.
"""


def install_command(words: Sequence[str]) -> None:
    """Make the program, or remove it. Raises Refused where another one is, UsageProblem for other words."""
    if {"-h", "--help"} & {*words}:
        sys.stdout.write(_HELP)
        return
    folders = [word for word in words if word != "--remove"]
    if len(folders) > 1 or any(word.startswith("-") for word in folders):
        raise UsageProblem(f"{' '.join(words)}: there are only --remove and one folder.")
    file = Path(folders[0] if folders else sysconfig.get_path("scripts")).absolute() / "airflow"
    is_ours = file.is_file() and _MARK in file.read_text(encoding="utf-8", errors="replace")
    if file.exists() and not is_ours:
        raise Refused(f"{file} is another program, which stays. Name another folder that PATH has before it.")
    if "--remove" in words:
        if is_ours:
            file.unlink()
        talk(f"removed {file}" if is_ours else f"there is no {file}")
        return
    if (installed := _airflow_here()) and not folders:
        raise Refused(
            f"Apache Airflow {installed} is installed in this environment, whose program this would stand for. "
            "Name another folder if you want both."
        )
    beside = file.with_name(f".airflow.{os.getpid()}")
    try:
        beside.write_text(_PROGRAM.format(python=sys.executable, mark=_MARK), encoding="utf-8")
        beside.chmod(0o755)
        beside.replace(file)
    except OSError as error:
        raise Refused(f"{file} cannot be made: {error.strerror}. Name another folder.") from None
    write(str(file))


def _airflow_here() -> str | None:
    for name in ("apache-airflow", "apache-airflow-core"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None
