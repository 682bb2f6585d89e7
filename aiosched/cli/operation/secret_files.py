"""Files of variables, connections and pools: JSON, YAML and lines `KEY=value`, by the ending of their names."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

import typer

from aiosched.cli.base.options import UsageProblem, read_json
from aiosched.cli.base.output import Format, counted, report, talk, to_yaml, write
from aiosched.cli.base.session import load, open_database
from aiosched.errors import Refused

if TYPE_CHECKING:
    from aiosched.backends.backend import Kind
    from aiosched.db.people.secrets import Change, SecretStore

T = TypeVar("T")

STDIN: Final = "-"

Reveal = Annotated[bool, typer.Option("--reveal", help="Show secrets in clear text.")]
SourceFile = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="A file .json, .yaml or .env; - is JSON on stdin.", show_default=False),
]
TargetFile = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="Where to write: .json, .yaml or .env; - is the standard output."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")]
FileFormat = Annotated[
    Literal["json", "yaml", "env"] | None,
    typer.Option("--format", help="Default: as the file's name ends, else json.", show_default=False),
]

Team = Annotated[
    str | None,
    typer.Option("--team", metavar="NAME", help="Whose DAGs may use it; '' for all.", show_default=False),
]

Existing = Annotated[
    Literal["overwrite", "skip", "fail"],
    typer.Option("--existing", "--action-on-existing-key", "-a", help="What to do with existing ones."),
]


def with_store(dsn: str | None, work: Callable[[SecretStore], Awaitable[T]]) -> T:
    """Run `work` on the secret store of the configured database."""
    import asyncio

    from aiosched.db.crypto.keyring import Keyring
    from aiosched.db.people.secrets import SecretStore

    async def run() -> T:
        settings = load(database__dsn=dsn).settings
        async with open_database(settings) as db:
            return await work(SecretStore(db, Keyring.of(settings)))

    return asyncio.run(run())


def list_everywhere(
    dsn: str | None, kind: Kind, stored: Callable[[SecretStore], Awaitable[Sequence[Any]]], key: str
) -> list[dict[str, Any]]:
    """What there is in backends, in this environment and in the database: the fields of those that are `stored`.

    `key` is the field with the name. Says which backends cannot be listed.
    """
    import asyncio

    from aiosched.backends.kinds import backends_of
    from aiosched.backends.sources import DATABASE, Names, names_in_backends, names_in_environment, origins_of

    infos = {row[key]: row for row in map(asdict, with_store(dsn, stored))}
    in_backends, problems = asyncio.run(names_in_backends(backends_of(load(database__dsn=dsn).settings), kind))
    for problem in problems:
        talk(problem)
    places = [*in_backends, names_in_environment(kind, os.environ), Names(DATABASE, infos.keys())]
    return [
        {
            key: one.name,
            **(infos[one.name] if one.source == DATABASE else {}),
            "source": one.source,
            "hidden_by": one.hidden_by,
        }
        for one in origins_of(places)
    ]


def read_document(path: Path) -> dict[str, Any]:
    """The names and values in a file: a JSON or YAML object, or lines `NAME=value`; `-` is JSON on the standard input.

    Raises UsageProblem.
    """
    try:
        text = sys.stdin.read() if str(path) == STDIN else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageProblem(f"{path} cannot be read: {reason}.") from None
    match _form_of(path):
        case "env":
            return _read_lines(text, path)
        case "yaml":
            document = _read_yaml(text, path)
        case _:
            document = read_json(text, str(path))
    if not isinstance(document, dict):
        raise UsageProblem(f"{path} must hold an object that maps names to values.")
    return document


def _form_of(path: Path) -> str:
    """The format of a file by its name; JSON for other endings."""
    is_env = path.suffix == ".env" or path.name == ".env"
    return "env" if is_env else "yaml" if path.suffix in {".yaml", ".yml"} else "json"


def _read_lines(text: str, path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise UsageProblem(f"{path}, line {number}: write it as NAME=value.")
        if name.strip() in found:
            raise UsageProblem(f"{path}, line {number}: {name.strip()} stands there twice.")
        found[name.strip()] = value
    return found


def _read_yaml(text: str, path: Path) -> Any:
    try:
        import yaml
    except ImportError:
        raise UsageProblem(f"{path} is YAML, which needs PyYAML: pip install PyYAML. JSON needs nothing.") from None
    try:
        return json.loads(json.dumps(yaml.safe_load(text) or {}))
    except yaml.YAMLError as error:
        raise UsageProblem(f"{path} is not valid YAML: {error}.") from None
    except TypeError as error:  # a date, for example
        raise UsageProblem(f"{path} has a value that JSON does not have ({error}): put it in quotes.") from None


def write_document(
    path: Path,
    document: Mapping[str, Any],
    noun: str,
    output: Format | None,
    *,
    overwrite: bool = False,
    form: str | None = None,
    texts: Mapping[str, str] | None = None,
) -> None:
    """Write names and values to a file that only its owner can read, or to the standard output for `-`.

    `form` is json, yaml or env (default: as the file's name ends); `texts` are the values for env. On the standard
    output `-o yaml` chooses the format, too; for a file, `-o` reports its name and the number of `noun` in it. Raises
    Refused if the file exists, unless `overwrite`, and for texts of several lines in env.
    """
    form = form or ("yaml" if str(path) == STDIN and output is Format.YAML else _form_of(path))
    if form == "env":
        text = "\n".join(_lines(document if texts is None else texts))
    else:
        text = to_yaml(document) if form == "yaml" else json.dumps(document, indent=2, ensure_ascii=False)
    if str(path) == STDIN:
        write(text)
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if overwrite else os.O_EXCL), 0o600)
    except FileExistsError:
        raise Refused(f"{path} exists: add --overwrite, name another file, or remove it.") from None
    except OSError as error:
        raise UsageProblem(f"{path} cannot be written: {error.strerror}.") from None
    os.fchmod(descriptor, 0o600)  # that of a file which was there may be another
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text + "\n")
    report({"file": str(path), f"{noun}s": len(document)}, output)


def _lines(texts: Mapping[str, Any]) -> Iterator[str]:
    for name, value in texts.items():
        text = value if isinstance(value, str) else json.dumps(value)
        if "\n" in text or "\r" in text:
            raise Refused(f"The value of {name} has several lines, which a file .env cannot hold: write .json.")
        yield f"{name}={text}"


def refuse_secrets(names: Iterable[str], *, reveal: bool) -> None:
    """Raise Refused for a document with secrets: without them it could not be imported, with them it needs
    `--reveal`."""
    if not reveal and (found := sorted(names)):
        some = ", ".join(found[:5]) + (" …" if len(found) > 5 else "")
        raise Refused(f"The file would hold secrets in clear text ({some}). Add --reveal if you want that.")


def report_imported(file: Path, changes: Mapping[str, Change], noun: str, output: Format | None) -> None:
    """`imported 3 variables: 2 created, 1 unchanged`; the change of each name in JSON and YAML."""
    counts = Counter(changes.values())
    detail = ", ".join(f"{number} {change}" for change, number in counts.items())
    talk(f"imported {counted(len(changes), noun)}" + (f": {detail}" if detail else ""))
    report({"file": str(file), f"{noun}s": changes}, output)
