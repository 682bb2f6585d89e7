"""What names each poison: an answer, an import error, a quarantine, the log, `why`; or nothing was wrong with it.

Several poisons of one DAG can have one name in common: a name counts for all of them that came before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from aiosched.db.server.engine import Database
from aiosched.errors import AioschedError, NotFound
from aiosched.scheduler.why.why import why
from tests.faults.campaign.fleet import Service

NOWHERE: Final = "named nowhere"
_LOUD: Final = frozenset({"warning", "error", "critical"})


@dataclass(frozen=True, slots=True)
class Mark:
    """One poison: its number, what was put where, and the DAG, file or request that it is about."""

    number: int
    place: str
    at: datetime
    dag_id: str | None = None
    file: str | None = None
    command: int | None = None


@dataclass
class Names:
    """What the product says at the end of a round."""

    answered: frozenset[int] = frozenset()  # requests
    files: Mapping[str, bool] = field(default_factory=dict)  # that were read, and whether with errors or warnings
    quarantined: Mapping[str, datetime] = field(default_factory=dict)  # DAGs, and when last
    logged: Mapping[str, datetime] = field(default_factory=dict)  # DAGs, and when the log last named them
    ended: Mapping[str, datetime] = field(default_factory=dict)  # DAGs, and when the newest run was made that has ended
    explained: frozenset[str] = frozenset()  # DAGs of which `why` says what stands in their way

    def of(self, mark: Mark, later: Iterable[Mark] = ()) -> str:
        """What names a poison; `later` are those that came after it."""
        if mark.command is not None:
            return "named by an answer" if mark.command in self.answered else NOWHERE
        if mark.file is not None:
            if any(other.file == mark.file for other in later):
                return "replaced by a later one"
            return "named by an import error" if self.files.get(mark.file) else "harmless: a file like any other"
        if mark.dag_id is None:
            return "about no single DAG"
        for name, found in (
            ("named by a quarantine", self.quarantined),
            ("named by the log", self.logged),
            ("harmless: its DAG goes on", self.ended),
        ):
            if mark.dag_id in found and found[mark.dag_id] >= mark.at:
                return name
        return "named by why" if mark.dag_id in self.explained else NOWHERE


def names_of(names: Names, marks: Sequence[Mark]) -> list[tuple[Mark, str]]:
    """Every poison with what names it."""
    return [(mark, names.of(mark, marks[place + 1 :])) for place, mark in enumerate(marks)]


async def read_names(dsn: str, services: Iterable[Service], dag_ids: Iterable[str]) -> Names:
    """Ask the database, the logs and `why`; schedulers may be running or not."""
    quarantined, logged = _logged(services)
    async with await Database.open(dsn, application_name="faults") as db:
        async with db.acquire() as conn:
            answered = await conn.fetch("SELECT id FROM request WHERE state <> 'waiting'")
            files = await conn.fetch("SELECT file, error IS NOT NULL OR warnings <> '{}' FROM dag_file")
            held = await conn.fetch("SELECT dag_id, since FROM dag_quarantine WHERE tried_at IS NULL")
            ended = await conn.fetch(
                "SELECT dag_id, max(created_at) FROM dag_run WHERE state IN ('success', 'failed') GROUP BY 1"
            )
        return Names(
            frozenset(number for (number,) in answered),
            dict(files),
            quarantined | {dag_id: datetime.now(UTC) for dag_id, _ in held},
            logged,
            dict(ended),
            frozenset([dag_id for dag_id in dag_ids if await _is_explained(db, dag_id)]),
        )


async def _is_explained(db: Database, dag_id: str) -> bool:
    """Whether `why` says what stands in the way of a DAG or of its latest run, or why it cannot say that."""
    try:
        for run in (None, "latest"):
            explanation = await why(db, dag_id, run)
            if explanation.in_the_way():
                return True
    except NotFound:
        return False
    except AioschedError:
        return True
    return False


def _logged(services: Iterable[Service]) -> tuple[dict[str, datetime], dict[str, datetime]]:
    """DAGs that were put into quarantine, and those that the log names at all: when last."""
    quarantined: dict[str, datetime] = {}
    logged: dict[str, datetime] = {}
    for service in services:
        for line in service.logged():
            if line.get("level") not in _LOUD or "timestamp" not in line:
                continue
            at, dag_id = datetime.fromisoformat(line["timestamp"]), _dag_of(line)
            if dag_id is not None:
                logged[dag_id] = max(at, logged.get(dag_id, at))
                if "is in quarantine" in str(line.get("event")):
                    quarantined[dag_id] = max(at, quarantined.get(dag_id, at))
    return quarantined, logged


def _dag_of(line: Mapping[str, Any]) -> str | None:
    """The DAG that a line of the log is about."""
    if (named := line.get("dag_id")) is not None:
        return str(named)
    found = re.search(r"victim\d\d", str(line.get("event", "")))
    return None if found is None else found[0]
