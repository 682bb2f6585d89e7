"""What a team reads about its move: the fate of each file, what is different without a word, what is to be done. Pure.

Source: docs/migration.md, "The report".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from aiosched.core.creation.first_sight import HANDFUL, due_at_first_sight
from aiosched.core.creation.run_creation import restriction_of
from aiosched.migration.cfg import CfgLine, SettingFate
from aiosched.migration.cfg_table import TRUE
from aiosched.migration.files import FileVerdict, Readiness
from aiosched.migration.generation import Generation
from aiosched.migration.planning import MigrationStep, StepOutcome
from aiosched.parsing.result import ParsedFile

_LINE: Final = re.compile(r"^line \d+: ")
MOST_COUNTED: Final = 1_000  # runs of one DAG that would be caught up


class Effort(StrEnum):
    """What it takes, the least first."""

    COMMAND = "a command"
    SETTING = "a setting"
    DECISION = "a decision"
    CODE = "a change of code"


@dataclass(frozen=True, slots=True)
class Todo:
    """One thing to do. `about`: the files, DAGs, settings or rows that it is about; `command`: what to run."""

    effort: Effort
    text: str
    about: tuple[str, ...] = ()
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """What does something else here than in Airflow, or nothing, and no error says so."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """A DAG that would begin with runs of the past: `runs` of them, at most MOST_COUNTED, since `since`."""

    dag_id: str
    runs: int
    since: datetime


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """Everything that the command found out or did. `generation` is None if nothing tells it."""

    applied: bool
    generation: Generation | None
    files: Sequence[FileVerdict]
    todo: Sequence[Todo]
    differences: Sequence[Difference]
    caught_up: Sequence[CaughtUp]
    settings: Sequence[CfgLine]
    steps: Sequence[MigrationStep]


def caught_up(files: Iterable[ParsedFile], positions: Iterable[str], now: datetime) -> list[CaughtUp]:
    """The DAGs that would begin with more than a handful of runs, the most first; not those whose position is known."""
    known, found = set(positions), []
    for dag in (dag for file in files for dag in file.dags if dag.dag_id not in known):
        spec = dag.spec
        since = restriction_of(spec).earliest
        if spec.catchup and since is not None:
            runs = due_at_first_sight(spec, now, most=MOST_COUNTED)
            if runs > HANDFUL:
                found.append(CaughtUp(dag.dag_id, runs, since))
    return sorted(found, key=lambda one: (-one.runs, one.since, one.dag_id))


def todo_of(
    files: Sequence[FileVerdict],
    settings: Sequence[CfgLine],
    steps: Sequence[MigrationStep],
    catching_up: Sequence[CaughtUp],
    generation: Generation | None,
    unread: Mapping[str, Sequence[str]],
) -> list[Todo]:
    """What is to be done, in the order of effort, and of what that does for how many.

    `unread`: the settings of Airflow that only a file of the project gives, by the file.
    """
    found = [
        *_of_files(files),
        *_of_settings(settings, generation, has_files=bool(files)),
        *(
            Todo(
                Effort.COMMAND,
                f"Start this command again with the settings of {file} in its environment: no airflow.cfg has them.",
                tuple(names),
            )
            for file, names in unread.items()
        ),
        *_of_runs(catching_up),
        *_of_steps(steps),
    ]
    efforts = list(Effort)
    return sorted(found, key=lambda one: (efforts.index(one.effort), -len(one.about), one.text))


def _of_files(files: Sequence[FileVerdict]) -> Iterator[Todo]:
    commands: dict[str, list[str]] = {}
    others: dict[tuple[Effort, str], list[str]] = {}
    for one in files:
        if one.remedy is not None:
            commands.setdefault(one.remedy, []).append(one.file)
        elif one.verdict in (Readiness.MODULE, Readiness.PYTHON, Readiness.VALUE):
            others.setdefault((Effort.DECISION, one.details[-1]), []).append(one.file)
        elif one.verdict is Readiness.FAILS:
            others.setdefault((Effort.CODE, _LINE.sub("", one.details[-1])), []).append(one.file)
    for command, names in commands.items():
        yield Todo(Effort.COMMAND, f"Run: {command}", tuple(names), command)
    for (effort, text), names in others.items():
        yield Todo(effort, text, tuple(names))


def _of_settings(lines: Sequence[CfgLine], generation: Generation | None, *, has_files: bool) -> Iterator[Todo]:
    if any(line.fate is SettingFate.SET for line in lines):
        yield Todo(Effort.COMMAND, "Save the settings of this report as aiosched.toml where aiosched is started.")
    if generation is None and has_files:
        yield Todo(
            Effort.SETTING,
            "Set core.airflow_defaults to 2 or 3, and core.dag_ignore_file_syntax to regexp (Airflow 1.10 and 2) or "
            "glob: nothing tells of which Airflow this project is.",
        )
    for line in lines:
        if line.fate is SettingFate.INVALID:
            yield Todo(Effort.SETTING, str(line.note), (f"[{line.section}] {line.option}",))


def _of_runs(catching_up: Sequence[CaughtUp]) -> Iterator[Todo]:
    if catching_up:
        runs = sum(one.runs for one in catching_up)
        more = "more than " if any(one.runs == MOST_COUNTED for one in catching_up) else ""
        yield Todo(
            Effort.DECISION,
            f"Decide about {more}{runs:,} runs of the past, which these DAGs begin with when they are unpaused here: "
            "take over where their schedules are (--database … --apply), give catchup=False, or let them run.",
            tuple(one.dag_id for one in catching_up),
        )


def _of_steps(steps: Sequence[MigrationStep]) -> Iterator[Todo]:
    by_reason: dict[str, list[str]] = {}
    for step in steps:
        if step.outcome in (StepOutcome.LEFT, StepOutcome.KEPT):
            by_reason.setdefault(f"{step.outcome.capitalize()}: {step.why}", []).append(f"{step.kind} {step.name}")
    for text, names in by_reason.items():
        yield Todo(Effort.DECISION, text, tuple(names))


# ---- what is different without a word ----

_WITHOUT_EFFECT: Final[Mapping[tuple[str, str], str]] = {
    ("core", "xcom_backend"): "the class is not used: large XComs go where xcom.remote says",
    ("email", "email_backend"): "the class is not used: mails go through the connection smtp_default",
    ("logging", "logging_config_class"): "the class is not used: logs of tasks have one form",
}
_INTERVALS: Final = ("create_cron_data_intervals", "create_delta_data_intervals")
_ORDINARY: Final = (".BaseXCom", ".send_email_smtp")  # ends of the values that are the default


def differences_of(
    cfg: Mapping[tuple[str, str], str],
    plugins: Iterable[str],
    lines: Sequence[CfgLine],
    generation: Generation | None,
) -> list[Difference]:
    """What the configuration, and remarks about plugins and cluster policies, tell."""
    classes = [(place, cfg.get(place, "").strip(), why) for place, why in _WITHOUT_EFFECT.items()]
    own = sorted({f"[{line.section}]" for line in lines if line.fate is SettingFate.UNKNOWN})
    unknown = Difference(
        f"unknown settings in {', '.join(own)}",
        "conf.get finds them in the airflow.cfg of the project, or of AIRFLOW_HOME",
    )
    return [
        *(
            Difference(f"[{section}] {option} = {value}", why)
            for (section, option), value, why in classes
            if value and not value.endswith(_ORDINARY)
        ),
        *(() if generation is None else _of_intervals(cfg, generation.number)),
        *(Difference("a plugin or a cluster policy", text) for text in plugins),
        *([unknown] if own else ()),
    ]


def _of_intervals(cfg: Mapping[tuple[str, str], str], number: int) -> Iterator[Difference]:
    """Airflow lets a setting choose whether a schedule has data intervals; here it is one with other defaults."""
    other, has, earlier = (3, "has", "earlier") if number == 2 else (2, "has no", "later")
    for option in _INTERVALS:
        value = cfg.get(("scheduler", option), "").strip()
        if value and (value.lower() in TRUE) == (number == 3):
            yield Difference(
                f"[scheduler] {option} = {value}",
                f"with core.airflow_defaults = {number} a schedule {has} data intervals, so logical dates are one "
                f"interval {earlier} than now: core.airflow_defaults = {other} keeps them, and changes other defaults "
                "(docs/airflow.md); or name a timetable in the DAGs",
            )
