"""`aiosched why`: every condition that a DAG, a run or a task must pass to run, and how to fix it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from aiosched.cli.base.completion import complete_run, complete_task
from aiosched.cli.base.opening import Open, open_page, page_path
from aiosched.cli.base.options import DagId, Dsn, MapIndex, Output
from aiosched.cli.base.output import STRUCTURED, Format, chosen, console, counted, duration, instant, show_data, write
from aiosched.cli.base.session import with_database
from aiosched.core.values.ids import read_instance_name

if TYPE_CHECKING:
    from aiosched.core.why.explanation import Explanation, Gate, Holder

app: typer.Typer = typer.Typer(rich_markup_mode=None, add_completion=False)

_MARKS: Final = {"ok": "ok", "wait": "WAIT", "never": "NEVER", "not-reached": "-", "unknown": "?"}
_STYLES: Final = {"ok": "green", "wait": "bold yellow", "never": "bold red", "unknown": "magenta"}
_SILENT: Final = ("scheduler", "DAG is active", "file", "import", "parallelism", "worker")  # unless they block


@app.command()
def why(
    dag_id: DagId,
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]",
            help="A run id (or its beginning), a logical date, latest, latest-failed or latest-backfill.",
            show_default=False,
            autocompletion=complete_run,
        ),
    ] = None,
    task_id: Annotated[
        str | None,
        typer.Argument(
            metavar="[TASK]",
            help="The task's id; load[3] for one of a mapped task.",
            show_default=False,
            autocompletion=complete_task,
        ),
    ] = None,
    map_index: MapIndex = None,
    open_: Open = False,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Explain why a DAG, a run or a task does not run: who holds what it needs, and how to fix it."""
    from aiosched.db.queries.queries import find_run
    from aiosched.scheduler.why.why import why as explain

    explanation = with_database(dsn, lambda db: explain(db, dag_id, run, task_id, map_index))
    form = chosen(output)
    if form in STRUCTURED:
        show_data(explanation, form)
    elif form is Format.PLAIN:
        _write_plain(explanation)
    else:
        _print(explanation)
    if open_:
        run_id = None if run is None else with_database(dsn, lambda db: find_run(db, dag_id, run)).run_id
        name, index = (None, None) if task_id is None else read_instance_name(task_id, map_index)
        open_page(dsn, page_path(dag_id, run_id, name, -1 if index is None else index))


def _write_plain(explanation: Explanation) -> None:
    write(f"{explanation.subject}\t{explanation.state}\t{explanation.summary}")
    for gate in explanation.gates:
        write(f"{gate.verdict}\t{gate.name}\t{gate.detail}")
        for holder in gate.holders:
            write(f"\t{holder.label}\t{_holding(holder)}")
    for note in explanation.notes:
        write(f"note\t{note}")
    for command in explanation.commands:
        write(f"do\t{command}")


def _print(explanation: Explanation) -> None:
    from rich.text import Text

    out = console()

    def line(*parts: str | tuple[str, str]) -> None:
        out.print(Text.assemble(*parts), soft_wrap=True)

    line((explanation.subject, "bold"), f": {explanation.summary}")
    gates = [gate for gate in explanation.gates if _is_shown(gate)]
    width = max((len(gate.name) for gate in gates), default=0)
    for gate in gates:
        mark = (f"{_MARKS[gate.verdict]:<5} ", _STYLES.get(gate.verdict, ""))
        line("  ", mark, f"{gate.name:<{width + 2}}{gate.detail}".rstrip())
        beside = max((len(holder.label) for holder in gate.holders), default=0)
        for holder in gate.holders:
            line(f"          {holder.label:<{beside + 2}}{_holding(holder)}")
    if explanation.rank is not None and explanation.rank > 1:
        line(f"queue position {explanation.rank} in its pool")
    if explanation.likely_free_at is not None:
        line(f"likely free in about {duration(explanation.likely_free_in)}")
    if explanation.earliest_start is not None:
        line(f"not before {instant(explanation.earliest_start)}")
    for note in explanation.notes:
        line(f"note: {note}")
    for command in explanation.commands:
        line("do: ", (command, "bold"))


def _is_shown(gate: Gate) -> bool:
    """Whether to show a gate: one that blocks nothing and has no details is left out."""
    return gate.verdict not in ("ok", "not-reached") or gate.name not in _SILENT


def _holding(holder: Holder) -> str:
    words = []
    if holder.task_id is not None and holder.slots != 1:
        words.append(counted(holder.slots, "slot"))
    words.append(f"{holder.state} {duration(holder.seconds)}".rstrip())
    if holder.usual_seconds is not None and holder.state == "running":
        words.append(f"usually {duration(holder.usual_seconds)}")
    return ", ".join(words)
