"""`aiosched init DIR`: a folder to start from.

The files are the ones in `starter/`; the settings are generated from the models, so they
always list what this version knows.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Final

import typer

from aiosched.cli.base.options import Output
from aiosched.cli.base.output import STRUCTURED, report, talk, write
from aiosched.errors import Refused

app: typer.Typer = typer.Typer(rich_markup_mode=None, add_completion=False)

# File in the new folder, its template, and what is said about it.
_FILES: Final = (
    ("aiosched.toml", None, "settings, each with its default as a comment"),
    ("dags/hello.py", "hello.py.txt", "a DAG with four tasks, one branch, one retry"),
    ("tests/test_dags.py", "test_dags.py.txt", "parses every DAG and runs hello"),
)


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder.", show_default=False)],
    output: Output = None,
) -> None:
    """Create a folder with settings, a DAG and its test."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Refused(f"{folder} is not empty. Choose a new folder: aiosched init NAME")
    for name, template, _ in _FILES:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(settings_file() if template is None else _template(template), encoding="utf-8")
    if output in STRUCTURED:
        report({"folder": str(folder), "files": [name for name, _, _ in _FILES]}, output)
    else:
        write(f"created {folder}/")
        width = max(len(name) for name, _, _ in _FILES)
        for name, _, about in _FILES:
            write(f"  {name:<{width}}  {about}")
    go = "" if folder.resolve() == Path.cwd() else f"cd {quote(str(folder))} && "
    talk(f"next: {go}{own_command()} serve")


def own_command() -> str:
    """How a shell calls this aiosched: by its name if the shell finds it, else by its path or its interpreter."""
    script, found = Path(sys.argv[0]).absolute(), shutil.which("aiosched")
    if script.name == "aiosched" and (found is None or Path(found).resolve() != script.resolve()):
        return quote(str(script))
    if script.name == "__main__.py" and found is None:
        return f"{quote(sys.executable)} -m aiosched"
    return "aiosched"


def settings_file() -> str:
    """An `aiosched.toml` without effect: every setting with its default, as a comment."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    from aiosched.config import Settings, setting_fields

    yield "# Settings of aiosched. A flag wins over the environment (AIOSCHED__SECTION__KEY), that over this file."
    yield "# Take the # away and change the value. Where they come from: aiosched config list --origin"
    fields = list(setting_fields())
    for section in Settings.model_fields:
        yield ""
        yield f"[{section}]"
        for field in fields:
            if field.section == section:
                default = field.info.get_default(call_default_factory=True)
                assignment = f"# {field.name} = {_toml(default)}".rstrip()
                yield f"{assignment:<58} # {field.info.description}"


def _toml(value: Any) -> str:
    """A default in TOML; empty for an unset one, which TOML cannot express."""
    match value:
        case None:
            return ""
        case bool() | int() | float():
            return str(value).lower()
    text = str(value)
    return f"'{text}'" if "\\" in text else json.dumps(text, ensure_ascii=False)


def _template(name: str) -> str:
    return resources.files("aiosched.cli").joinpath("starter", name).read_text(encoding="utf-8")
