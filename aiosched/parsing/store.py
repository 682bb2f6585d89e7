"""Stores parse results: a batch of files in one transaction.

Lives here: the order of the steps. Does not live here: SQL (aiosched.db.statements.dags), which file owns a DAG
(claims.py), when to store (service.py).

Source: the semantics reference, sections 1.1, 30.4 and 31.2; section 34, decisions 16, 18 and 20.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from aiosched.core.assets.conditions import AssetReference
from aiosched.core.creation.first_sight import is_held_back
from aiosched.core.graph.spec import DagSpec, encode_spec
from aiosched.db.access.team_folders import teams_of_files
from aiosched.db.assets import assets, dependencies
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements import dags as dag_statements
from aiosched.errors import DatabaseError
from aiosched.parsing.claims import (
    Claim,
    Conflict,
    asset_warnings,
    assign,
    catchup_warnings,
    executor_warnings,
    file_row,
    pool_warnings,
)
from aiosched.parsing.result import ParsedDag, ParsedFile, parsed_dag

log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """The changes of a transaction, to be announced after its commit."""

    changed: frozenset[str] = frozenset()  # DAGs with a new version, definition or health
    withdrawn: frozenset[str] = frozenset()  # those of them that became stale
    conflicts: Mapping[str, tuple[Conflict, ...]] = field(default_factory=dict)  # by file
    warned: frozenset[str] = frozenset()  # files with warnings that can be resolved outside of them


async def store_results(
    conn: DatabaseConnection,
    results: Sequence[ParsedFile],
    *,
    now: datetime,
    paused_at_creation: bool,
    present: Collection[str] | None = None,
    absent_since: Callable[[str], datetime | None] = lambda _: None,
    executors: Collection[str] | None = None,
) -> StoredFiles:
    """Store the outcomes of different files; call it in a transaction.

    `present` are all files that exist now: a DAG whose file is gone can be taken by another file. `absent_since` says
    since when a file is not here that another scheduler reads (None: none does). If that one has read it later, it has
    another folder, and there the file exists. `executors` are those that the scheduler has; None: unknown. The number
    of statements does not depend on the number of files.
    """
    before = await _files_before(conn, results)
    found = {d.dag_id for r in results for d in r.dags}
    guessed = {d.dag_id: d for r in results for d in r.dags if d.catchup_is_guess and is_held_back(d.spec, now)}
    had = {dag_id for file in before.values() for dag_id in file.dag_ids}
    await dag_statements.add_dags(
        conn, _new_dags(assign(results, owners={}, stored={}).kept.values(), paused_at_creation, guessed)
    )
    dags = await _locked(conn, found, found | had)
    owners = {dag_id: dags[dag_id].file for dag_id in found}
    others = await dag_statements.read_files(conn, {f for f in owners.values() if f is not None} - before.keys())
    if present is not None:
        present = {*present, *_elsewhere(others, absent_since)}
    moving = {d.dag_id for r in results for d in r.dags if owners[d.dag_id] not in (None, r.name)}
    contested = moving or len(found) < sum(len(r.dags) for r in results)
    claims = assign(
        results,
        owners=owners,
        stored=before | others,
        present=present,
        teams_of_dags={dag_id: dags[dag_id].team for dag_id in moving},
        teams_of_files=await teams_of_files(conn, [r.name for r in results]) if contested else {},
    )
    pools = await dag_statements.known_pools(conn, {p for r in results for d in r.dags for p in d.pools})

    held = await dag_statements.paused_without_runs(conn, guessed)
    if new := sorted(dag_id for dag_id in held if dags[dag_id].version_id is None):
        log.warning("paused, since it is a guess that their runs are to be caught up: %s", ", ".join(new))
    changed = await _define(conn, claims.kept, dags, now=now)
    clashes = await assets.clashes(conn, _references(claims.kept, claims.kept))
    withdrawn = await dag_statements.withdraw_dags(
        conn,
        {
            (dag_id, r.name, r.error is not None)
            for r in results
            for dag_id in (before[r.name].dag_ids if r.name in before else ())
            if dag_id not in claims.kept and not (r.error is None and dag_id in {d.dag_id for d in r.dags})
        },
    )
    await _forget_mentions(conn, withdrawn)
    kept = dict[str, list[str]]()
    for dag_id, claim in claims.kept.items():
        kept.setdefault(claim.file or "", []).append(dag_id)
    warnings = {
        result.name: [
            *pool_warnings(result.dags, pools),
            *(executor_warnings(result.dags, executors) if executors is not None else ()),
            *asset_warnings(result.dags, clashes),
            *catchup_warnings(dag for dag in result.dags if dag.dag_id in held),
        ]
        for result in results
    }
    await dag_statements.store_files(
        conn,
        [
            file_row(
                result,
                kept=kept.get(result.name, ()),
                conflicts=claims.conflicts.get(result.name, ()),
                previous=before.get(result.name),
                warnings=warnings[result.name],
            )
            for result in results
        ],
        now=now,
    )
    warned = frozenset(name for name, found in warnings.items() if found)
    return StoredFiles(frozenset(changed) | frozenset(withdrawn), frozenset(withdrawn), claims.conflicts, warned)


def _elsewhere(
    files: Mapping[str, dag_statements.StoredFile], absent_since: Callable[[str], datetime | None]
) -> list[str]:
    """Those of these files that exist in the folder of another scheduler, although they are not here."""
    return [
        name
        for name, row in files.items()
        if row.parsed_at is not None and (since := absent_since(name)) is not None and row.parsed_at > since
    ]


async def remove_files(conn: DatabaseConnection, files: Collection[str]) -> StoredFiles:
    """Remove deleted files: their rows and errors are deleted, their DAGs become stale. Call it in a transaction."""
    before = await dag_statements.read_files(conn, files)
    await dag_statements.lock_dags(conn, {dag_id for file in before.values() for dag_id in file.dag_ids})
    withdrawn = await dag_statements.withdraw_dags(
        conn, {(dag_id, file.file, False) for file in before.values() for dag_id in file.dag_ids}
    )
    await _forget_mentions(conn, withdrawn)
    await dag_statements.delete_files(conn, files)
    return StoredFiles(frozenset(withdrawn), frozenset(withdrawn))


async def register_specs(
    conn: DatabaseConnection,
    specs: Iterable[DagSpec],
    *,
    now: datetime,
    paused_at_creation: bool = False,
    application: str | None = None,
    are_all: bool = True,
) -> StoredFiles:
    """Store DAGs that a process registered as objects, without a file.

    Call it in a transaction. A DAG of a file is taken over; a file that yields it later takes it back. With an
    `application` these are all of its DAGs: what it registered before becomes stale, as the DAGs of a removed file do;
    unless not `are_all`.
    After the commit, announce `changed` as parsing does.
    """
    parsed = [parsed_dag(encode_spec(spec), spec) for spec in specs]
    claims = {dag.dag_id: Claim(dag) for dag in parsed}
    guessed = {dag.dag_id for dag in parsed if dag.catchup_is_guess and is_held_back(dag.spec, now)}
    await dag_statements.add_dags(conn, _new_dags(claims.values(), paused_at_creation, guessed))
    before = await dag_statements.registered_dags(conn, application) if application and are_all else set()
    dags = await _locked(conn, claims.keys(), claims.keys() | before)
    changed = await _define(conn, claims, dags, now=now)
    if application is None:
        return StoredFiles(frozenset(changed))
    await dag_statements.claim_registered(conn, application, claims.keys())
    if not are_all:
        return StoredFiles(frozenset(changed))
    withdrawn = await dag_statements.withdraw_registered(conn, application, claims.keys())
    await _forget_mentions(conn, withdrawn)
    return StoredFiles(frozenset(changed) | frozenset(withdrawn), frozenset(withdrawn))


async def withdraw_registered(conn: DatabaseConnection, application: str, dag_id: str) -> bool:
    """Make one DAG of an application stale, unless a file has it; whether that changed it. As `register_specs`."""
    await _locked(conn, (), {dag_id})
    withdrawn = await dag_statements.withdraw_one(conn, application, dag_id)
    await _forget_mentions(conn, withdrawn)
    return bool(withdrawn)


async def _forget_mentions(conn: DatabaseConnection, withdrawn: Collection[str]) -> None:
    """Stale DAGs mention no assets, and depend on no DAGs."""
    await assets.forget_references(conn, withdrawn)
    await dependencies.store_dependencies(conn, dict.fromkeys(withdrawn, ()))


async def _files_before(
    conn: DatabaseConnection, results: Sequence[ParsedFile]
) -> dict[str, dag_statements.StoredFile]:
    """The stored rows of the files of `results`. A broken one has the DAGs that it gave last.

    It may have been empty or away for a moment, as while it is written or moved.
    """
    before = await dag_statements.read_files(conn, [r.name for r in results])
    empty = [r.name for r in results if r.error is not None and not (r.name in before and before[r.name].dag_ids)]
    for name, dag_ids in (await dag_statements.last_dags_of(conn, empty)).items():
        row = before.get(name) or dag_statements.StoredFile(name, None, (), False)
        before[name] = replace(row, dag_ids=dag_ids)
    return before


def _new_dags(
    claims: Iterable[Claim], paused_at_creation: bool, held_back: Collection[str]
) -> list[dag_statements.NewDag]:
    def is_paused(dag: ParsedDag) -> bool:
        asked = paused_at_creation if dag.is_paused_upon_creation is None else dag.is_paused_upon_creation
        return asked or dag.dag_id in held_back

    return [dag_statements.NewDag(c.dag.dag_id, c.file, is_paused(c.dag)) for c in claims]


async def _locked(
    conn: DatabaseConnection, needed: Collection[str], dag_ids: Collection[str]
) -> dict[str, dag_statements.StoredDag]:
    """Lock `dag_ids`; raises DatabaseError if a `needed` one was deleted since its row was created."""
    dags = await dag_statements.lock_dags(conn, dag_ids)
    if missing := sorted(set(needed) - dags.keys()):
        names = ", ".join(missing)
        raise DatabaseError(f"The rows of {names} were deleted while they were stored. Store them again.")
    return dags


async def _define(
    conn: DatabaseConnection, kept: Mapping[str, Claim], dags: Mapping[str, dag_statements.StoredDag], *, now: datetime
) -> set[str]:
    """Write versions and definitions of `kept`; returns the DAGs for which more than the parse time changed."""
    new = {i: c for i, c in kept.items() if _has_changed(c, dags[i])}
    newest = {i: v for i in new if (v := dags[i].version_id) is not None}
    unused = await dag_statements.unused_versions(conn, newest.values())
    versions = await dag_statements.write_versions(
        conn,
        [_version(c, dags[i], replaces=newest.get(i) in unused) for i, c in sorted(new.items())],
        replaced=unused,
    )
    definitions = [_definition(c, versions.get(i) or dags[i].version_id) for i, c in sorted(kept.items())]
    await dag_statements.define_dags(conn, definitions, now=now)
    mentions = _references(kept, new.keys() | {i for i in kept if dags[i].is_stale})  # stale DAGs have none
    current = {i: found for i, found in mentions.items() if found or dags[i].version_id is not None}
    await assets.store_references(conn, current, now=now)
    others = {i: found for i in mentions if (found := kept[i].dag.dependencies) or dags[i].version_id is not None}
    await dependencies.store_dependencies(conn, others)
    return new.keys() | {
        d.dag_id
        for d in definitions
        if (old := dags[d.dag_id]).definition != d.definition or old.is_stale or old.has_import_errors
    }


def _has_changed(claim: Claim, old: dag_statements.StoredDag) -> bool:
    """Whether the DAG's definition or code differs from its newest version."""
    before = (old.content_hash, old.source_hash, old.bundle, old.bundle_version)
    return before != (claim.dag.content_hash, claim.source_hash, claim.bundle, claim.bundle_version)


def _references(kept: Mapping[str, Claim], dag_ids: Iterable[str]) -> dict[str, tuple[AssetReference, ...]]:
    return {dag_id: kept[dag_id].dag.references for dag_id in dag_ids if dag_id in kept}


def _version(claim: Claim, old: dag_statements.StoredDag, *, replaces: bool) -> dag_statements.NewVersion:
    number = old.number or 0
    return dag_statements.NewVersion(
        dag_id=claim.dag.dag_id,
        number=number if replaces else number + 1,
        content_hash=claim.dag.content_hash,
        spec=claim.dag.document.decode(),
        file=claim.file,
        file_hash=claim.file_hash,
        source=claim.source,
        source_hash=claim.source_hash,
        sources=claim.sources,
        bundle=claim.bundle,
        bundle_version=claim.bundle_version,
    )


def _definition(claim: Claim, version_id: int | None) -> dag_statements.DagDefinition:
    assert version_id is not None  # equal content hashes imply that there is a version
    dag = claim.dag
    return dag_statements.DagDefinition(
        dag_id=dag.dag_id,
        file=claim.file,
        version_id=version_id,
        max_active_runs=dag.max_active_runs,
        max_active_tasks=dag.max_active_tasks,
        schedule=dag.schedule,
        schedule_timezone=dag.schedule_timezone,
        description=dag.description,
        owner=dag.owner,
        tags=dag.tags,
    )
