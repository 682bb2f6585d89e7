"""The output of `serve`: the banner, and a line for each start and end of a run and each quarantine.

Or the same as JSON lines.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from aiosched import __version__
from aiosched.cli.base.output import STRUCTURED, STYLES, Format, chosen, console, counted, duration
from aiosched.cli.serve.line_writer import LineWriter
from aiosched.logs import writes_json

if TYPE_CHECKING:
    from aiosched.parsing import ParserStats
    from aiosched.scheduler import SchedulerEvent


class Screen:
    """Writes to stdout, each line at once. In JSON every line is an object with `event` and `at`.

    Where stdout and stderr are one stream (`serve > log 2>&1`), it writes in the format of the log. A stdout that
    nobody reads holds nothing up; then lines of runs are dropped at some time, unless `whole`.
    """

    def __init__(self, output: Format | None, *, whole: bool = False) -> None:
        self._json = chosen(output) in STRUCTURED or (output is None and _is_log_stream() and writes_json())
        self._whole = whole
        self._lines: LineWriter | None = None  # from the first line on
        self._width = 0
        self._held: list[SchedulerEvent] | None = []  # runs that changed before the banner was complete

    def title(self) -> None:
        if not self._json:
            self._write(f"aiosched {__version__}")

    def fact(self, name: str, text: str, **data: Any) -> None:
        """One line of the banner, such as `database   PostgreSQL 18.4, embedded`."""
        if self._json:
            self._write(_object(name, datetime.now(UTC), {"text": text, **data}))
        else:
            self._write(f"  {name:<10} {text}")

    def dags(self, folder: str, stats: ParserStats | None, *, watching: bool) -> None:
        """The result of the first pass over the DAG files; None if it is not finished."""
        if stats is None:
            self.fact("dags", f"{folder}   still parsing, watching", folder=folder)
            return
        hint = " (aiosched dags errors)" if stats.errors else ""
        text = f"{folder}   {counted(stats.dags, 'DAG')}, {counted(stats.errors, 'error')}{hint}"
        parsed = f", parsed in {duration(stats.seconds)}" + (", watching" if watching else "")
        if stats.elsewhere:
            parsed += f"; other schedulers parse {counted(stats.elsewhere, 'file')}"
        self.fact("dags", text + parsed, folder=folder, **asdict(stats))

    def ready(self, seconds: float) -> None:
        """End the banner; from here on runs are shown."""
        if self._json:
            self._write(_object("ready", datetime.now(UTC), {"version": __version__, "seconds": round(seconds, 3)}))
        else:
            self._write(f"ready in {seconds:.1f} s")
        held, self._held = self._held or [], None
        for event in held:
            self.run(event)

    def run(self, event: SchedulerEvent) -> None:
        """A run started or ended, or a DAG went into quarantine."""
        if self._held is not None:
            self._held.append(event)
            return
        if self._json:
            data = {name: value for name, value in asdict(event).items() if name not in ("kind", "at")}
            self._write(_object(event.kind, event.at, data), droppable=True)
            return
        self._width = min(max(self._width, len(event.dag_id)), 40)
        about = f"{event.at.astimezone():%H:%M:%S} {event.dag_id:<{self._width}}  "
        if event.kind == "dag_quarantined":
            said = " ".join((event.reason or "").split()).removeprefix(f"DAG {event.dag_id!r} is in quarantine ")
            line = _styled(about, "quarantine", f" {said}")
        else:
            line = _styled(f"{about}run {short_run(event.run_id)} ", event.state, _ending(event))
        self._write(line, droppable=True)

    def flush(self) -> None:
        """Wait until everything is written, as long as somebody reads."""
        if self._lines is not None:
            self._lines.flush()

    def _write(self, line: str, *, droppable: bool = False) -> None:
        if self._lines is None:
            try:
                self._lines = LineWriter(sys.stdout.fileno(), self._dropped)
            except OSError:  # captured in memory: it never holds anybody up
                sys.stdout.write(line + "\n")
                return
        self._lines.write(line, droppable=droppable and not self._whole)

    def _dropped(self, count: int) -> str:
        if self._json:
            return _object("dropped", datetime.now(UTC), {"lines": count})
        return f"{counted(count, 'line')} of runs were dropped: nobody read them"


def _object(event: str, at: datetime, data: dict[str, Any]) -> str:
    instant = at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps({"event": event, "at": instant, **data}, default=str)


def _styled(text: str, state: str, rest: str) -> str:
    """A line with its state in colour, on a terminal."""
    if not sys.stdout.isatty():
        return f"{text}{state}{rest}"
    from rich.text import Text

    screen = console()
    with screen.capture() as captured:
        screen.print(Text.assemble(text, (state, STYLES.get(state, "")), rest), soft_wrap=True, end="")
    return str(captured.get())


def _is_log_stream() -> bool:
    """Whether stdout is what stderr is, and no terminal."""
    try:
        ours, log = os.fstat(sys.stdout.fileno()), os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):  # captured, closed
        return False
    return (ours.st_dev, ours.st_ino) == (log.st_dev, log.st_ino) and not sys.stdout.isatty()


def short_run(run_id: str) -> str:
    """`2026-11-20T12:00:00+00:00` for a scheduled run; other run ids as they are."""
    return run_id.removeprefix("scheduled__")


def _ending(event: SchedulerEvent) -> str:
    if event.seconds is None:
        return ""
    why = f" ({event.reason})" if event.reason else ""
    return f" in {duration(event.seconds)}, {event.done} of {event.total} tasks{why}"
