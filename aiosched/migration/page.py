"""The report as one HTML page that needs nothing else, to be sent or printed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from aiosched.migration.cfg import SettingFate, as_toml
from aiosched.migration.files import FileVerdict, Readiness
from aiosched.migration.report import MOST_COUNTED, CaughtUp, MigrationReport, Todo

_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #1f2328 }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 2rem }
pre { background: #f6f8fa; padding: 1rem; overflow: auto }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; border-bottom: 1px solid #d8dee4 }
td { overflow-wrap: break-word } th { white-space: nowrap }
"""
_ORDER: Final = {verdict: place for place, verdict in enumerate(reversed(Readiness))}


def as_html(report: MigrationReport, folder: str) -> str:
    """The page; `folder` is the one that was looked at. Everything in it that others wrote is escaped."""
    verdicts = [one.verdict for one in report.files]
    counts = [(f"{verdicts.count(each)}", each) for each in Readiness if each in verdicts]
    generation = report.generation
    told = f"Airflow {generation.number} ({generation.why})" if generation else "not known"
    dags = sum(len(one.dags) for one in report.files)
    toml = as_toml(list(report.settings))
    done = "What was taken over" if report.applied else "What would be taken over"
    parts = [
        f"<h1>Moving from Airflow: {escape(folder)}</h1>",
        f"<p>{len(report.files)} files with {dags} DAGs. Made for: {escape(told)}.</p>",
        _table("Files", ("number", "fate"), counts),
        _table("To do, in the order of effort", ("effort", "what", "about"), map(_todo, report.todo)),
        _table("Different without an error", ("what", "why"), ((one.what, one.why) for one in report.differences)),
        _table("Runs of the past", ("DAG", "runs", "since"), map(_runs, report.caught_up)),
        _table("Each file", ("file", "fate", "DAGs", "details"), map(_file, sorted(report.files, key=_place))),
        _section("Settings: aiosched.toml", f"<pre>{escape(toml)}</pre>" if toml else ""),
        _table(
            "Other settings of Airflow",
            ("setting", "fate", "why"),
            (
                (f"[{one.section}] {one.option}", one.fate, one.note or "")
                for one in report.settings
                if one.fate not in (SettingFate.SET, SettingFate.DEFAULT)
            ),
        ),
        _table(
            done, ("kind", "name", "result", "why"), ((s.kind, s.name, s.outcome, s.why or "") for s in report.steps)
        ),
    ]
    head = f"<meta charset=utf-8><title>Moving from Airflow</title><style>{_STYLE}</style>"
    return f"<!doctype html><html lang=en>{head}<body>{''.join(parts)}</body></html>\n"


def _place(one: FileVerdict) -> tuple[int, str]:
    return _ORDER[one.verdict], one.file


def _file(one: FileVerdict) -> Sequence[str]:
    return one.file, one.verdict, ", ".join(one.dags), "\n".join(one.details)


def _todo(one: Todo) -> Sequence[str]:
    return one.effort, one.text, ", ".join(one.about)


def _runs(one: CaughtUp) -> Sequence[str]:
    more = "more than " if one.runs == MOST_COUNTED else ""
    return one.dag_id, f"{more}{one.runs:,}", f"{one.since:%Y-%m-%d}"


def _table(title: str, names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = ["".join(f"<td>{escape(cell).replace(chr(10), '<br>')}</td>" for cell in row) for row in rows]
    head = "".join(f"<th>{name}</th>" for name in names)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return _section(title, f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if cells else "")


def _section(title: str, content: str) -> str:
    return f"<h2>{escape(title)}</h2>{content}" if content else ""
