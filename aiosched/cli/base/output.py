"""How results are written: data on stdout, messages on stderr.

Four formats: `table` (default on a terminal), `plain` (default elsewhere: no heading,
columns separated by tabs, for `cut` and `xargs`), `json` and `yaml` (all fields; instants
in RFC 3339, UTC). NO_COLOR is respected.

Tables are for people: a row is one line, run ids are short, and instants are relative to now. What identifies a row is
never cut: the widest of the other columns are, the last one first, and where that is not enough the last ones are left
out. A few ids that are too long take no column from the other rows: their own rows go on past the edge. With `--wide`
all is shown as it is; the other formats always do.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, TypeVar

from aiosched.clock import SystemClock
from aiosched.core.values.durations import duration as duration
from aiosched.core.values.durations import relative
from aiosched.core.values.ids import short_run_id
from aiosched.core.values.texts import without_escapes

T = TypeVar("T")

Columns = Mapping[str, Callable[[T], Any]]


_is_wide: Final[ContextVar[bool]] = ContextVar("aiosched_wide", default=False)


def set_wide(wide: bool) -> None:
    """Whether tables show everything as it is; set by `--wide`."""
    _is_wide.set(wide)


def is_wide() -> bool:
    """Whether tables show everything as it is."""
    return _is_wide.get()


class RunId(str):
    """A run id in a column, which tables shorten."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ExactInstant:
    """An instant in a column that is not shown relative to now: a logical date, which names its run."""

    at: datetime | None


class Format(StrEnum):
    """The formats that `-o` accepts."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    PLAIN = "plain"


_UNBOUNDED: Final = 100_000  # columns of a terminal, for what may be wider than the terminal
_GAP: Final = 2  # between the columns of a table
_IDS: Final = frozenset({"DAG", "RUN", "TASK", "ID", "POOL", "ASSET", "KEY", "NAME"})  # never cut, as the first column
_NARROWEST: Final = 6  # characters to which a column is cut
_SENTENCE: Final = 30  # characters that a sentence has for a line at least
_LEFT_OUT: Final = 0  # the width of such a column
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
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
    "active": "green",
    "scheduled": "yellow",
    "up_for_reschedule": "yellow",
    "restarting": "cyan",
    "stale": "bright_black",
}


def chosen(output: Format | None) -> Format:
    """The default format: a table on a terminal, plain lines elsewhere."""
    if output is not None:
        return output
    return Format.TABLE if sys.stdout.isatty() else Format.PLAIN


def talk(message: str) -> None:
    """Write a message for the user; never part of the data."""
    sys.stderr.write((harmless(message) if sys.stderr.isatty() else message) + "\n")
    sys.stderr.flush()


def write(text: str) -> None:
    """One line of data."""
    sys.stdout.write((harmless(text) if sys.stdout.isatty() else text) + "\n")


def harmless(text: str) -> str:
    """`text` of authors and tasks without what a terminal obeys: escape sequences, and control characters."""
    return _CONTROL.sub("", without_escapes(text))


def show_list(
    items: Sequence[T], columns: Columns[T], output: Format | None, *, empty: str, sentences: int = 0
) -> None:
    """Write `items`: their `columns` in tables and plain lines, all fields in JSON and YAML.

    If there are none, tables and plain lines write the message `empty` on stderr. The last `sentences` columns are
    what the list is for: tables wrap them, and cut nothing off.
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
            wide, now = is_wide(), SystemClock().now()
            rows = [[_flat(_cell(read(item), None if wide else now)) for read in columns.values()] for item in items]
            _print_table(rows, list(columns), wide=wide, sentences=sentences)


def with_names(columns: Columns[T], items: Sequence[T], name: Callable[[T], str | None]) -> Columns[T]:
    """The columns, with a last one of display names if any of `items` has one."""
    return {**columns, "NAME": name} if any(map(name, items)) else columns


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
    if isinstance(value, ExactInstant):
        value = value.at
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return _flat(_cell(value))


def _flat(text: str) -> str:
    return text.replace("\t", " ").replace("\n", " ")


def _cell(value: Any, now: datetime | None = None) -> str:
    """A value for people; with `now` an instant is relative to it, and a run id is short."""
    return harmless(_words(value, now))


def _words(value: Any, now: datetime | None) -> str:
    match value:
        case None:
            return ""
        case ExactInstant():
            return instant(value.at)
        case RunId() if now is not None:
            return short_run_id(value)
        case datetime() if now is not None:
            return relative(value, now)
        case bool():
            return "yes" if value else "no"
        case datetime():
            return instant(value)
        case list() | tuple() | set() | frozenset():
            return ", ".join(map(str, value))
        case dict():
            return json.dumps(value, default=str, ensure_ascii=False)
    return str(value)


def fitting(cells: Sequence[Sequence[int]], room: int, kept: Collection[int], least: Sequence[int]) -> list[int]:
    """Widths of columns whose cells need so many characters, in `room`, which has the gaps between them, too.

    Those at the places `kept` have the width of their longest cell that leaves the others `least`, but not less than
    most of their cells need. If that is not enough the last of the others are left out (0). The widest of the rest (of
    equal ones the last) gets less.
    """
    widths = [max(column) for column in cells]
    others = [place for place in range(len(cells)) if place not in kept]
    usual = {place: sorted(cells[place])[(len(cells[place]) - 1) // 2] for place in kept}
    smaller = {place: sorted({n for n in cells[place] if usual[place] <= n < widths[place]}) for place in kept}

    def excess(widths: Sequence[int]) -> int:
        shown = [width for width in widths if width != _LEFT_OUT]
        return sum(shown) + _GAP * (len(shown) - 1) - room

    def excess_at_least() -> int:
        return excess([min(width, least[place]) if place in others else width for place, width in enumerate(widths)])

    while excess_at_least() > 0 and (long := [place for place in kept if smaller[place]]):
        widest = max(long, key=lambda place: widths[place])
        widths[widest] = smaller[widest].pop()
    while excess_at_least() > 0 and others:
        widths[others.pop()] = _LEFT_OUT
    while excess(widths) > 0 and (wide := [place for place in others if widths[place] > least[place]]):
        widths[max(wide, key=lambda place: (widths[place], place))] -= 1
    return widths


def _print_table(rows: list[list[str]], titles: list[str], *, wide: bool, sentences: int) -> None:
    from rich.cells import cell_len
    from rich.text import Text

    screen = console()
    room = _UNBOUNDED if wide else screen.width
    first = len(titles) - sentences  # of the sentences
    cells = [[max(len(title), cell_len(cell)) for cell in column] for title, *column in zip(titles, *rows, strict=True)]
    kept = [place for place, title in enumerate(titles[:first]) if place == 0 or title in _IDS]
    least = [max(len(title), min(max(needs), _NARROWEST)) for title, needs in zip(titles, cells, strict=True)]
    widths = fitting(cells[:first], room - (_SENTENCE + _GAP if sentences else 0), kept, least)
    shown = [place for place, width in enumerate(widths) if width != _LEFT_OUT]
    indent = sum(widths[place] + _GAP for place in shown)

    def line(row: Sequence[str], style_of: Callable[[str], str], rest: str) -> Text:
        written, begin = Text(), 0
        for place in shown:
            cell = Text(row[place])
            if place not in kept:
                cell.stylize(style_of(row[place]))
                cell.truncate(widths[place], overflow="ellipsis")
            written.append(" " * max(begin - written.cell_len, _GAP if begin else 0)).append(cell)
            begin += widths[place] + _GAP
        return written.append(rest and " " * max(indent - written.cell_len, _GAP) + rest)

    screen.print(line(titles, lambda _: "bold", "".join(titles[first : first + 1])), soft_wrap=True)
    for row in rows:
        said, *more = _wrapped(row[first:], titles[first:], room - indent) or [""]
        screen.print(line(row, lambda cell: STYLES.get(cell, ""), said), soft_wrap=True)
        for text in more:
            screen.print(Text(" " * indent + text), soft_wrap=True)
    if hidden := [title for place, title in enumerate(titles[:first]) if place not in shown]:
        talk(f"not shown, as the terminal is narrow: {', '.join(hidden)} (--wide shows all)")


def _wrapped(sentences: Sequence[str], titles: Sequence[str], room: int) -> list[str]:
    """Lines with sentences: all but the first begin with their title. Paths and addresses stay whole."""
    from textwrap import wrap

    said = [
        f"{title.lower()}: {text}" if place else text
        for place, (title, text) in enumerate(zip(titles, sentences, strict=True))
        if text
    ]
    width = max(room, _SENTENCE)
    return [each for text in said for each in wrap(text, width, break_long_words=False, break_on_hyphens=False)]


def _print_rich(label: str, value: str) -> None:
    from rich.text import Text

    console().print(Text.assemble((label, "bold"), (value, STYLES.get(value, ""))), soft_wrap=True)


def console(*, stderr: bool = False) -> Any:
    """A rich console on the current stream; colours only on a terminal and without NO_COLOR."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, emoji=False)
