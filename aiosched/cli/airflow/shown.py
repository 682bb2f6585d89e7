"""How Airflow shows rows: JSON and YAML with texts as values, plain columns, and tables with `|` between them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from aiosched.cli.base.output import to_yaml, write

FORMATS: Final = ("table", "json", "yaml", "plain")
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")

Row = Mapping[str, Any]


def projected(rows: Iterable[Row], columns: str, only: Sequence[str] = (), more: str = "") -> list[dict[str, Any]]:
    """The rows with the columns of Airflow: `name` or `name=ours`, or those in `only` of all that there are."""
    names = named(columns)
    if only:
        known = names | named(more)
        names = {name: known[name] for name in only if name in known}
    return [{name: _as_in_airflow(row.get(ours)) for name, ours in names.items()} for row in rows]


def named(columns: str) -> dict[str, str]:
    """The names of columns, and what they are called here."""
    parts = (one.partition("=") for one in columns.split())
    return {name: ours if equals else name for name, equals, ours in parts}


def _as_in_airflow(value: Any) -> Any:
    return f"{value[:-1]}+00:00" if isinstance(value, str) and _INSTANT.fullmatch(value) else value


def show(rows: Sequence[Row], output: str | None) -> None:
    """Write rows as Airflow does in this format; without one as a table."""
    output = output or "table"
    if output in {"json", "yaml"}:
        data = [{name: _text(value) for name, value in row.items()} for row in rows]
        write(json.dumps(data, ensure_ascii=False) if output == "json" else to_yaml(data))
        return
    if not rows:
        write("No data found")
        return
    names = list(rows[0])
    cells = [names, *([_cell(value) for value in row.values()] for row in rows)]
    widths = [max(len(line) for row in cells for line in row[at].splitlines() or [""]) for at in range(len(names))]
    for number, row in enumerate(cells):
        for line in _lines(row):
            padded = (part.ljust(width) for part, width in zip(line, widths, strict=True))
            write((" | " if output == "table" else "  ").join(padded).rstrip())
        if output == "table" and number == 0:
            write("=+=".join("=" * width for width in widths))


def _lines(row: Sequence[str]) -> list[list[str]]:
    """The lines of a row whose cells may have several."""
    parts = [cell.splitlines() or [""] for cell in row]
    return [[part[at] if at < len(part) else "" for part in parts] for at in range(max(map(len, parts)))]


def _text(value: Any) -> Any:
    """A value as Airflow's JSON has it: everything but None, lists and objects is text."""
    if isinstance(value, Mapping):
        return {name: _text(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_text(one) for one in value]
    return None if value is None else str(value)


def _cell(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
