"""Decides which file a DAG belongs to, and the contents of a file's row. Pure.

If two files define the same DAG id, the file that has it keeps it for as long as it exists and yields the DAG; the
other file gets an error that names the first. Its other DAGs are not affected. A DAG with its history stays with its
team: a file of another one does not get it, also if it waited for that.

Source: docs/architecture.md, "From a file to a version"; the semantics reference, section 30.4.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

import msgspec

from aiosched.core.creation.first_sight import is_held_back
from aiosched.core.creation.run_creation import restriction_of
from aiosched.core.values.commands import command_line
from aiosched.db.assets.assets import Clash
from aiosched.db.statements.dags import FileRow, StoredFile
from aiosched.parsing.result import ParsedDag, ParsedFile


@dataclass(frozen=True, slots=True)
class Claim:
    """A DAG and its file; no file if a process registered it."""

    dag: ParsedDag
    file: str | None = None
    file_hash: str | None = None
    source: str | None = None
    source_hash: str | None = None
    sources: Mapping[str, str] | None = None
    bundle: str | None = None
    bundle_version: str | None = None


@dataclass(frozen=True, slots=True)
class Conflict:
    """`dag_id` of this file belongs to `winner` (perhaps this file itself, which defines it twice).

    Without one it belongs to a team (or to nobody) whose files do not define it any more; `wanted_by` is the team of
    this file. `is_foreign`: the winner is of another team, whose name and files are not for the authors of this one.
    """

    dag_id: str
    winner: str | None
    wanted_by: str | None = None
    is_foreign: bool = False


@dataclass(frozen=True, slots=True)
class Claims:
    """The assignment of DAGs to files; every DAG of every file is in exactly one of the two fields."""

    kept: Mapping[str, Claim]  # by DAG id
    conflicts: Mapping[str, tuple[Conflict, ...]]  # by file; only files with conflicts


def assign(
    results: Sequence[ParsedFile],
    *,
    owners: Mapping[str, str | None],
    stored: Mapping[str, StoredFile],
    present: Collection[str] | None = None,
    teams_of_dags: Mapping[str, str | None] = MappingProxyType({}),
    teams_of_files: Mapping[str, str] = MappingProxyType({}),
) -> Claims:
    """Give each DAG of `results` to one file.

    `owners` are the files of these DAGs in the database, `stored` the rows of those files, `present` the files that
    exist now (None: unknown, all of them may exist). `teams_of_dags` has the teams (None: nobody) of DAGs with a
    history, `teams_of_files` those of the files of `results`.
    """
    candidates: dict[str, list[ParsedFile]] = {}
    for result in sorted(results, key=lambda r: r.name):
        for dag in result.dags:
            candidates.setdefault(dag.dag_id, []).append(result)
    parsed_well = {r.name for r in results if r.error is None}
    winners: dict[str, str | None] = {}
    for dag_id, files in candidates.items():
        names = [f.name for f in files]
        owner = owners.get(dag_id)
        still_there = owner is not None and owner not in parsed_well and (present is None or owner in present)
        if owner is not None and (
            owner in names or (still_there and owner in stored and dag_id in stored[owner].dag_ids)
        ):
            winners[dag_id] = owner
        else:
            anybody = dag_id not in teams_of_dags
            team = teams_of_dags.get(dag_id)
            winners[dag_id] = next((name for name in names if anybody or teams_of_files.get(name) == team), None)
    kept: dict[str, Claim] = {}
    conflicts: dict[str, list[Conflict]] = {}
    for dag_id, files in candidates.items():
        for file in files:
            if file.name == winners[dag_id] and dag_id not in kept:
                dag = next(d for d in file.dags if d.dag_id == dag_id)
                code = (file.source, file.source_hash, file.sources, file.bundle, file.bundle_version)
                kept[dag_id] = Claim(dag, file.name, file.digest, *code)
            else:
                winner, wanted_by = winners[dag_id], teams_of_files.get(file.name)
                its_team = teams_of_files.get(winner or "", teams_of_dags.get(dag_id))
                conflicts.setdefault(file.name, []).append(Conflict(dag_id, winner, wanted_by, its_team != wanted_by))
    return Claims(kept, {file: tuple(found) for file, found in conflicts.items()})


def file_row(
    result: ParsedFile,
    *,
    kept: Collection[str],
    conflicts: Sequence[Conflict],
    previous: StoredFile | None,
    warnings: Sequence[str] = (),
) -> FileRow:
    """The row of `result`'s file: `kept` are the DAGs that it owns; a broken file keeps its previous DAGs."""
    error = result.error
    message = error.message if error else conflict_message(conflicts, result.name)
    dag_ids = tuple(sorted(kept)) if error is None else (previous.dag_ids if previous else ())
    return FileRow(
        file=result.name,
        content_hash=result.digest,
        dag_ids=dag_ids,
        parse_seconds=result.seconds,
        error=message if error is None else f"{error.type}: {error.message}",
        error_line=error.line if error else None,
        traceback=error.traceback if error else None,
        code_frame=error.code_frame if error else None,
        warnings=(*result.warnings, *warnings),
        sources=result.sources,
        bundle_version=result.bundle_version,
    )


def conflict_message(conflicts: Sequence[Conflict], file: str) -> str | None:
    """The error for the author of `file` about DAGs that it does not own; None if it owns all."""
    if not conflicts:
        return None
    said = "; ".join(_said(conflict, file) for conflict in conflicts)
    return f"{said}. Give one of them another dag_id, or remove it."


def _said(conflict: Conflict, file: str) -> str:
    dag = f"DAG {conflict.dag_id!r}"
    if conflict.winner is None:
        to = () if conflict.wanted_by is None else ("--team", conflict.wanted_by)
        move = command_line("teams move-dag", conflict.dag_id, options=to)
        return f"{dag} is not of this file's team, nor is its history; an administrator moves it: `{move}`"
    if conflict.winner == file:
        return f"{dag} is defined twice in this file"
    if conflict.is_foreign:
        return f"{dag} is already defined, not by this file's team"
    return f"{dag} is already defined in {conflict.winner}"


def pool_warnings(dags: Sequence[ParsedDag], known: Collection[str]) -> list[str]:
    """A warning for each pool that does not exist."""
    missing = sorted({(pool, dag.dag_id) for dag in dags for pool in dag.pools if pool not in known})
    return [
        f"DAG {dag_id!r} uses the pool {pool!r}, which does not exist: its tasks wait until "
        f"`{command_line('pools set', pool, 'SLOTS')}` creates it."
        for pool, dag_id in missing
    ]


def catchup_warnings(dags: Iterable[ParsedDag]) -> list[str]:
    """A warning for each of `dags`, which begin paused: see first_sight.py."""
    starts = {dag.dag_id: restriction_of(dag.spec).earliest for dag in dags}
    return [
        f"DAG {dag_id!r} begins paused: as one of Airflow 2 it catches up all runs since {start:%Y-%m-%d}, but it may "
        "be one of Airflow 3. Set core.airflow_defaults to 2 or 3, or give it catchup=; then unpause it, if wanted."
        for dag_id, start in starts.items()
        if start is not None
    ]


def at_first_sight(result: ParsedFile, now: datetime) -> ParsedFile:
    """The outcome with the warnings that a scheduler adds that has not seen its DAGs before."""
    held = [dag for dag in result.dags if dag.catchup_is_guess and is_held_back(dag.spec, now)]
    return msgspec.structs.replace(result, warnings=(*result.warnings, *catchup_warnings(held))) if held else result


def executor_warnings(dags: Sequence[ParsedDag], known: Collection[str]) -> list[str]:
    """A warning for each executor that the scheduler does not have."""
    missing = sorted({(name, dag.dag_id) for dag in dags for name in dag.executors if name not in known})
    return [
        f"DAG {dag_id!r} uses the executor {name!r}, which is not configured (configured: {', '.join(known)}): "
        "its tasks wait until the setting executor.kind includes it."
        for name, dag_id in missing
    ]


def asset_warnings(dags: Sequence[ParsedDag], clashes: Sequence[Clash]) -> list[str]:
    """A warning for each asset of `dags` for which another DAG has a different URI."""
    ours = {dag.dag_id for dag in dags}
    return [
        f"DAG {c.dag_id!r} has the asset {c.name!r} at {c.uri!r}, DAG {c.other!r} has it at {c.other_uri!r}: "
        "an asset is known by its name, so give one of them another name, or both the same URI."
        for c in clashes
        if c.dag_id in ours
    ]
