"""The comparison as Markdown: medians of rounds, their spread, versions and settings. Pure.

A rate says how many tasks a second; beside it how many times as fast aiosched was: its `local` executor with shapes of
DAGs, `inline` with one-off jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Final

from benchmarks.peers.catalogue import KINDS, Kind
from benchmarks.peers.measurements import Entry, Facts, Measurement, Session

BEGIN: Final = "<!-- python -m benchmarks peers: what follows is generated -->"
BEGIN_JOBS: Final = "<!-- python -m benchmarks peers --jobs: what follows is generated -->"
END: Final = "<!-- the end of what is generated -->"
OURS: Final = ("local", "jobs")  # of which one is in a comparison


class NoPlace(Exception):
    """A page without the two markers."""


def table(entries: Sequence[Entry]) -> str:
    """All of it: where it was measured, rates, makespans, peers, and what failed."""
    measured = [entry for entry in entries if isinstance(entry, Measurement)]
    peers = [kind for kind in KINDS.values() if any(entry.peer == kind.name for entry in measured)]
    shapes = list(dict.fromkeys(entry.shape for entry in measured))
    parts = [
        _where([entry for entry in entries if isinstance(entry, Session)], measured),
        _grid(_corner(peers), peers, shapes, lambda kind, shape: _rate(measured, kind, shape)),
        _grid("makespan s", peers, shapes, lambda kind, shape: _makespan(measured, kind, shape)),
        _peers(peers, [entry for entry in entries if isinstance(entry, Facts)]),
        _problems(measured),
    ]
    return "\n\n".join(part for part in parts if part)


def put_into(page: str, text: str, begins: str = BEGIN) -> str:
    """The page with `text` between its markers. Raises NoPlace."""
    head, begin, rest = page.partition(begins)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise NoPlace(f"There is no line {begins!r}, with {END!r} below it. Add both where the table shall stand.")
    return f"{head}{begins}\n\n{text}\n\n{END}{tail}"


def rate(entries: Iterable[Measurement], peer: str, shape: str) -> float | None:
    """Tasks a second by the median of the makespans; None without any."""
    found = _of(entries, peer, shape)
    return found[-1].tasks / median(_seconds(found)) if found else None


def _of(entries: Iterable[Measurement], peer: str, shape: str) -> list[Measurement]:
    """What was measured of this, in the size of the last one; a round that was measured again counts once."""
    found = [e for e in entries if (e.peer, e.shape) == (peer, shape) and e.seconds is not None]
    return list({e.number: e for e in found if e.ran == found[-1].ran}.values())


def _seconds(found: Iterable[Measurement]) -> list[float]:
    return [entry.seconds for entry in found if entry.seconds is not None]


def _corner(peers: Sequence[Kind]) -> str:
    return "jobs/s (times aiosched)" if any(kind.runs_jobs for kind in peers) else "tasks/s (times `local`)"


def _rate(entries: Sequence[Measurement], kind: Kind, shape: str) -> str:
    theirs = rate(entries, kind.name, shape)
    ours = next((found for name in OURS if (found := rate(entries, name, shape)) is not None), None)
    if theirs is None:
        return "failed"
    shown = f"{theirs:,.0f}" if theirs >= 10 else f"{theirs:.2f}"
    if ours is None or kind.name in OURS:
        return shown
    times = ours / theirs
    return f"{shown} ({times:,.0f})" if times >= 100 else f"{shown} ({times:.1f})"


def _makespan(entries: Sequence[Measurement], kind: Kind, shape: str) -> str:
    found = _of(entries, kind.name, shape)
    if not found:
        return "failed"
    seconds = _seconds(found)
    smaller = "" if found[-1].ran == shape else f", {found[-1].ran}"
    return f"{_short(median(seconds))} ({_short(min(seconds))} to {_short(max(seconds))}{smaller})"


def _short(seconds: float) -> str:
    return f"{seconds:.3f}" if seconds < 1 else f"{seconds:.2f}" if seconds < 10 else f"{seconds:.1f}"


def _grid(corner: str, peers: Sequence[Kind], shapes: Sequence[str], cell: Callable[[Kind, str], str]) -> str:
    head = f"| {corner} | {' | '.join(kind.title for kind in peers)} |\n|---|{'---:|' * len(peers)}"
    rows = [f"| `{shape}` | {' | '.join(cell(kind, shape) for kind in peers)} |" for shape in shapes]
    return "\n".join([head, *rows])


def _peers(peers: Sequence[Kind], facts: Sequence[Facts]) -> str:
    last = {entry.peer: entry for entry in facts}
    rows = [
        f"| {kind.title} | {', '.join(f'{name} {at}' for name, at in last[kind.name].versions.items())} "
        f"| {last[kind.name].settings} |"
        for kind in peers
        if kind.name in last
    ]
    return "\n".join(["| | versions | how |\n|---|---|---|", *rows]) if rows else ""


def _where(sessions: Sequence[Session], measured: Sequence[Measurement]) -> str:
    rounds = len({entry.number for entry in measured})
    many = f"{rounds} rounds" if rounds > 1 else "one round"
    said = [f"Medians of {many}, and in brackets the shortest and the longest."]
    if sessions:
        one = sessions[-1]
        days = " and ".join(dict.fromkeys(entry.at for entry in sessions))
        said.append(
            f"Measured on {days}; {one.machine}; {one.postgres}, a durable commit {one.commit_p50 * 1000:.2f} ms; "
            f"load of the machine before it {one.load:.1f}."
        )
    return " ".join(said)


def _problems(measured: Iterable[Measurement]) -> str:
    lines = dict.fromkeys(
        f"- {KINDS[e.peer].title}, `{e.shape}`, round {e.number + 1}: {e.problem}" for e in measured if e.problem
    )
    return "\n".join(["What failed:", "", *lines]) if lines else ""
