"""JSON files of variables and connections, shared by the two command groups."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
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
    Path, typer.Argument(metavar="FILE", help="A JSON file; - is the standard input.", show_default=False)
]
TargetFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="Where to write; - is the standard output.", show_default=False)
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
    """Read the JSON object in a file, or on the standard input for `-`. Raises UsageProblem."""
    try:
        text = sys.stdin.read() if str(path) == STDIN else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageProblem(f"{path} cannot be read: {reason}.") from None
    document = read_json(text, str(path))
    if not isinstance(document, dict):
        raise UsageProblem(f"{path} must hold a JSON object that maps names to values.")
    return document


def write_document(path: Path, document: Mapping[str, Any], noun: str, output: Format | None) -> None:
    """Write a JSON object to a new file that only its owner can read, or to the standard output for `-`.

    On the standard output the document is the data, in YAML with `-o yaml`; for a file, `-o` reports its name and the
    number of `noun` in it. Raises Refused if the file exists.
    """
    text = json.dumps(document, indent=2, ensure_ascii=False)
    if str(path) == STDIN:
        write(to_yaml(document) if output is Format.YAML else text)
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise Refused(f"{path} exists: name another file, or remove it.") from None
    except OSError as error:
        raise UsageProblem(f"{path} cannot be written: {error.strerror}.") from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text + "\n")
    report({"file": str(path), f"{noun}s": len(document)}, output)


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
