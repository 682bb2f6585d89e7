"""How results are written: data on stdout, messages on stderr.

Four formats: `table` (default on a terminal), `plain` (default elsewhere: no heading,
columns separated by tabs, for `cut` and `xargs`), `json` and `yaml` (all fields; instants
in RFC 3339, UTC). NO_COLOR is respected.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, TypeVar

from aiosched.core.values.durations import duration as duration

T = TypeVar("T")

Columns = Mapping[str, Callable[[T], Any]]


class Format(StrEnum):
    """The formats that `-o` accepts."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    PLAIN = "plain"


STRUCTURED: Final = (Format.JSON, Format.YAML)  # for programs

STYLES: Final = {
    "success": "green",
    "ok": "green",
    "alive": "green",
    "failed": "red",
    "upstream_failed": "red",
    "error": "red",
    "quarantine": "red",
    "dead": "red",
    "running": "cyan",
    "queued": "yellow",
    "up_for_retry": "yellow",
    "deferred": "magenta",
    "skipped": "bright_black",
    "removed": "bright_black",
    "paused": "yellow",
}


def chosen(output: Format | None) -> Format:
    """The default format: a table on a terminal, plain lines elsewhere."""
    if output is not None:
        return output
    return Format.TABLE if sys.stdout.isatty() else Format.PLAIN


def talk(message: str) -> None:
    """Write a message for the user; never part of the data."""
    sys.stderr.write(message + "\n")
    sys.stderr.flush()


def write(text: str) -> None:
    """One line of data."""
    sys.stdout.write(text + "\n")


def show_list(items: Sequence[T], columns: Columns[T], output: Format | None, *, empty: str) -> None:
    """Write `items`: their `columns` in tables and plain lines, all fields in JSON and YAML.

    If there are none, tables and plain lines write the message `empty` on stderr.
    """
    match chosen(output):
        case Format.JSON | Format.YAML as structured:
            show_data(list(items), structured)
        case _ if not items:
            talk(empty)
        case Format.PLAIN:
            for item in items:
                write("\t".join(_plain(read(item)) for read in columns.values()))
        case Format.TABLE:
            _print_table([[_cell(read(item)) for read in columns.values()] for item in items], list(columns))


def show_one(fields: Mapping[str, Any], output: Format | None, *, data: Any = None) -> None:
    """Write one item as names and values; `data` (default: `fields`) is what JSON and YAML show.

    A table omits empty values, plain lines do not.
    """
    match chosen(output):
        case Format.JSON | Format.YAML as structured:
            show_data(fields if data is None else data, structured)
        case Format.PLAIN:
            for name, value in fields.items():
                write(f"{name}\t{_plain(value)}")
        case Format.TABLE:
            cells = {name: cell for name, value in fields.items() if (cell := _cell(value))}
            width = max(map(len, cells), default=0)
            for name, cell in cells.items():
                _print_rich(f"{name:<{width}}  ", cell)


def report(done: Mapping[str, Any], output: Format | None) -> None:
    """Write the result of a command as one object in JSON and YAML; nothing in tables and plain lines, where a message
    has said it."""
    if output in STRUCTURED:
        show_data(done, output)


def show_data(data: Any, output: Format) -> None:
    """Write dataclasses (with their properties), mappings and lists as JSON or YAML."""
    import msgspec

    plain = json.loads(msgspec.json.encode(_with_derived(data), enc_hook=str))
    write(json.dumps(plain, indent=2, ensure_ascii=False) if output is Format.JSON else to_yaml(plain))


def _with_derived(data: Any) -> Any:
    """`data` with its dataclasses as mappings of their fields and public properties."""
    if isinstance(data, list | tuple):
        return [_with_derived(item) for item in data]
    if isinstance(data, Mapping):
        return {key: _with_derived(value) for key, value in data.items()}
    if not is_dataclass(data) or isinstance(data, type):
        return data
    derived = [name for name, member in vars(type(data)).items() if isinstance(member, property) and name[0] != "_"]
    return {name: _with_derived(getattr(data, name)) for name in [*(f.name for f in fields(data)), *derived]}


def to_yaml(data: Any) -> str:
    """JSON-like data in YAML's block style; every text is quoted as in JSON."""
    return "\n".join(_yaml_lines(data))


def _yaml_lines(data: Any) -> list[str]:
    if isinstance(data, dict) and data:
        lines = []
        for key, value in data.items():
            inner = _yaml_lines(value)
            head = f"{json.dumps(key, ensure_ascii=False)}:"
            if isinstance(value, dict | list) and value:
                lines += [head, *(f"  {line}" for line in inner)]
            else:
                lines.append(f"{head} {inner[0]}")
        return lines
    if isinstance(data, list) and data:
        lines = []
        for item in data:
            first, *rest = _yaml_lines(item)
            lines += [f"- {first}", *(f"  {line}" for line in rest)]
        return lines
    return [json.dumps(data, ensure_ascii=False)]


# ---- one value ----


def instant(value: datetime | None) -> str:
    """An instant for people: in UTC, without redundant parts."""
    return "" if value is None else f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def counted(number: int, noun: str) -> str:
    """`1 DAG`, `2 DAGs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _plain(value: Any) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return _cell(value).replace("\t", " ").replace("\n", " ")


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case datetime():
            return instant(value)
        case list() | tuple() | set() | frozenset():
            return ", ".join(map(str, value))
        case dict():
            return json.dumps(value, default=str, ensure_ascii=False)
    return str(value)


def _print_table(rows: list[list[str]], titles: list[str]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in titles:
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
    console().print(table)


def _print_rich(label: str, value: str) -> None:
    from rich.text import Text

    console().print(Text.assemble((label, "bold"), (value, STYLES.get(value, ""))), soft_wrap=True)


def console(*, stderr: bool = False) -> Any:
    """A rich console on the current stream; colours only on a terminal and without NO_COLOR."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, emoji=False)
