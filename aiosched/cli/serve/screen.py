"""The output of `serve`: the banner, and a line for each start and end of a run and each quarantine.

Or the same as JSON lines.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from aiosched.cli.base.output import STRUCTURED, STYLES, Format, chosen, console, counted, duration
from aiosched.cli.serve.line_writer import LineWriter
from aiosched.logs import json_line, streams_are_one, write_event, writes_json
from aiosched.version import __version__

if TYPE_CHECKING:
    from aiosched.cli.base.page import WebPage
    from aiosched.parsing.service import ParserStats
    from aiosched.scheduler import SchedulerEvent


_LOGGER: Final = "aiosched.serve"


class Screen:
    """Writes to stdout, each line at once. In JSON every line is what a line of the log is.

    Where stdout and stderr are one stream (`serve > log 2>&1`) and the log is in JSON, its lines are lines of the log,
    in order with the others. A stdout of its own that nobody reads holds nothing up; then lines of runs are dropped at
    some time, unless `whole`.
    """

    def __init__(self, output: Format | None, *, whole: bool = False) -> None:
        wanted = output is None or output in STRUCTURED
        self._in_log = wanted and streams_are_one() and writes_json()
        self.is_json: bool = self._in_log or chosen(output) in STRUCTURED
        self._whole = whole
        self._lines: LineWriter | None = None  # from the first line on
        self._width = 0
        self._held: list[SchedulerEvent] | None = []  # runs that changed before the banner was complete

    def title(self) -> None:
        if not self.is_json:
            self._write(f"aiosched {__version__}")

    def fact(self, name: str, text: str, **data: Any) -> None:
        """One line of the banner, such as `database   PostgreSQL 18.4, embedded`."""
        if self.is_json:
            self._tell(name, {"text": text, **data})
        else:
            self._write(f"  {name:<10} {text}")

    def dags(self, folder: str, stats: ParserStats | None, *, watching: bool, waits_for: str | None = None) -> None:
        """The result of the first pass over the DAG files; None if it is not finished, as it `waits_for` something."""
        if stats is None:
            why = "" if waits_for is None else f": {waits_for}, the other files are read"
            self.fact("dags", f"{folder}   still parsing, watching{why}", folder=folder)
            return
        hint = " (aiosched dags errors)" if stats.errors else ""
        text = f"{folder}   {counted(stats.dags, 'DAG')}, {counted(stats.errors, 'error')}{hint}"
        parsed = f", parsed in {duration(stats.seconds)}" + (", watching" if watching else "")
        if stats.elsewhere:
            parsed += f"; other schedulers parse {counted(stats.elsewhere, 'file')}"
        self.fact("dags", text + parsed, folder=folder, **asdict(stats))

    def page(self, page: WebPage, url: str, command: str) -> None:
        """The address for people. A token is for a terminal: what is piped is kept, and others read it.

        `command` prints one with a token.
        """
        shown, login = page.url, page.login
        if page.token is not None and not sys.stdout.isatty():
            shown, login = page.url_without_token, f"log in by the address of: {command}"
        self.fact("web", f"{shown}   {login}", url=url, page=shown, login=login)

    def ready(self, seconds: float) -> None:
        """End the banner; from here on runs are shown."""
        if self.is_json:
            self._tell("ready", {"version": __version__, "seconds": round(seconds, 3)})
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
        if self.is_json:
            data = {name: value for name, value in asdict(event).items() if name not in ("kind", "at")}
            level = logging.ERROR if event.kind == "dag_quarantined" else logging.INFO
            self._tell(event.kind, data, level=level, droppable=True)
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

    def _tell(self, event: str, data: dict[str, Any], *, level: int = logging.INFO, droppable: bool = False) -> None:
        if self._in_log:
            write_event(level, _LOGGER, event, data)
        else:
            self._write(json_line(logging.getLevelName(level), _LOGGER, event, data), droppable=droppable)

    def _write(self, line: str, *, droppable: bool = False) -> None:
        if self._lines is None:
            try:
                self._lines = LineWriter(sys.stdout.fileno(), self._dropped)
            except OSError:  # captured in memory: it never holds anybody up
                sys.stdout.write(line + "\n")
                return
        self._lines.write(line, droppable=droppable and not self._whole)

    def _dropped(self, count: int) -> str:
        if self.is_json:
            return json_line("warning", _LOGGER, "dropped", {"lines": count})
        return f"{counted(count, 'line')} of runs were dropped: nobody read them"


def _styled(text: str, state: str, rest: str) -> str:
    """A line with its state in colour, on a terminal."""
    if not sys.stdout.isatty():
        return f"{text}{state}{rest}"
    from rich.text import Text

    screen = console()
    with screen.capture() as captured:
        screen.print(Text.assemble(text, (state, STYLES.get(state, "")), rest), soft_wrap=True, end="")
    return str(captured.get())


def short_run(run_id: str) -> str:
    """`2026-11-20T12:00:00+00:00` for a scheduled run; other run ids as they are."""
    return run_id.removeprefix("scheduled__")


def _ending(event: SchedulerEvent) -> str:
    if event.seconds is None:
        return ""
    why = f" ({event.reason})" if event.reason else ""
    return f" in {duration(event.seconds)}, {event.done} of {event.total} tasks{why}"
