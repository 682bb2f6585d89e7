"""Whose a DAG is. Source: docs/architecture.md, "From a file to a version"."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.db.statements.dags import StoredFile
from aiosched.parsing.claims import Claims, Conflict, assign, conflict_message, file_row, pool_warnings
from aiosched.parsing.result import ParsedFile
from tests.parsing.builders import a_dag, a_result


def owners_of(claims: Claims) -> dict[str, str | None]:
    return {dag_id: claim.file for dag_id, claim in claims.kept.items()}


def file_with(name: str, *dag_ids: str) -> dict[str, StoredFile]:
    return {name: StoredFile(name, "d0", dag_ids, has_error=False)}


def test_of_two_new_files_the_alphabetically_first_gets_the_dag() -> None:
    claims = assign([a_result("b.py", "x", "only_b"), a_result("a.py", "x")], owners={}, stored={})

    assert owners_of(claims) == {"x": "a.py", "only_b": "b.py"}
    assert claims.conflicts == {"b.py": (Conflict("x", "a.py"),)}


def test_the_file_that_has_the_dag_keeps_it_against_an_earlier_name() -> None:
    claims = assign([a_result("a.py", "x")], owners={"x": "b.py"}, stored=file_with("b.py", "x"))

    assert owners_of(claims) == {}
    assert claims.conflicts == {"a.py": (Conflict("x", "b.py"),)}


def test_the_owner_keeps_it_when_both_are_parsed_together() -> None:
    both = [a_result("a.py", "x"), a_result("b.py", "x")]

    claims = assign(both, owners={"x": "b.py"}, stored=file_with("b.py", "x"))

    assert owners_of(claims) == {"x": "b.py"}


def test_a_dag_that_its_file_does_not_yield_any_more_may_move() -> None:
    moved = [a_result("b.py"), a_result("a.py", "x")]

    claims = assign(moved, owners={"x": "b.py"}, stored=file_with("b.py", "x"))

    assert owners_of(claims) == {"x": "a.py"}


@pytest.mark.parametrize("present", [None, frozenset({"research/zz.py", "sales/v2.py"})])
@pytest.mark.parametrize("team", ["sales", None], ids=["of a team", "of nobody"])
def test_a_dag_stays_with_its_team_while_a_file_of_another_waits_for_it(
    present: Collection[str] | None, team: str | None
) -> None:
    """Also if its own file was renamed, and is parsed later or together with the other one."""
    waiting, renamed = a_result("research/zz.py", "orders", "own"), a_result("sales/v2.py", "orders")
    teams = {"research/zz.py": "research"} | ({} if team is None else {"sales/v2.py": team})
    rules: dict[str, Any] = {"owners": {"orders": "sales/v1.py"}, "present": present}
    rules |= {"teams_of_dags": {"orders": team}, "teams_of_files": teams}

    alone = assign([waiting, a_result("sales/v1.py")], stored=file_with("sales/v1.py", "orders"), **rules)
    together = assign([waiting, renamed], stored={}, **rules)

    assert owners_of(alone) == {"own": "research/zz.py"}
    assert alone.conflicts == {"research/zz.py": (Conflict("orders", None, "research", is_foreign=True),)}
    assert owners_of(together) == {"own": "research/zz.py", "orders": "sales/v2.py"}
    assert together.conflicts == {"research/zz.py": (Conflict("orders", "sales/v2.py", "research", is_foreign=True),)}
    assert conflict_message(alone.conflicts["research/zz.py"], "research/zz.py") == (
        "DAG 'orders' is not of this file's team, nor is its history; an administrator moves it: "
        "`aiosched teams move-dag orders --team research`. Give one of them another dag_id, or remove it."
    )


@pytest.mark.parametrize("is_parsed_together", [True, False])
def test_authors_are_not_told_the_files_of_other_teams(*, is_parsed_together: bool) -> None:
    mine, theirs = a_result("research/a.py", "orders"), a_result("sales/secret_plan.py", "orders")
    teams = {"research/a.py": "research", "sales/secret_plan.py": "sales"}

    claims = assign(
        [mine, theirs] if is_parsed_together else [mine],
        owners={"orders": "sales/secret_plan.py"},
        stored=file_with("sales/secret_plan.py", "orders"),
        teams_of_dags={"orders": "sales"},
        teams_of_files=teams if is_parsed_together else {"research/a.py": "research"},
    )

    said = conflict_message(claims.conflicts["research/a.py"], "research/a.py")
    assert said == (
        "DAG 'orders' is already defined, not by this file's team. Give one of them another dag_id, or remove it."
    )


def test_a_dag_without_a_history_belongs_to_whoever_defines_it() -> None:
    claims = assign(
        [a_result("research/a.py", "x")], owners={}, stored={}, teams_of_files={"research/a.py": "research"}
    )

    assert owners_of(claims) == {"x": "research/a.py"}


def test_a_file_with_an_error_keeps_its_dags() -> None:
    claims = assign(
        [a_result("b.py", error="broken"), a_result("a.py", "x")], owners={"x": "b.py"}, stored=file_with("b.py", "x")
    )

    assert claims.conflicts == {"a.py": (Conflict("x", "b.py"),)}


def test_a_file_that_is_gone_keeps_nothing() -> None:
    stored = file_with("old.py", "x")

    claims = assign([a_result("new.py", "x")], owners={"x": "old.py"}, stored=stored, present={"new.py"})

    assert owners_of(claims) == {"x": "new.py"}


def test_a_dag_that_a_process_registered_is_taken_by_a_file() -> None:
    assert owners_of(assign([a_result("a.py", "x")], owners={"x": None}, stored={})) == {"x": "a.py"}


@given(
    st.dictionaries(st.sampled_from("abcd"), st.lists(st.sampled_from("uvwxyz"), max_size=4), max_size=4),
    st.dictionaries(st.sampled_from("uvwxyz"), st.sampled_from("abcd"), max_size=6),
)
def test_every_dag_of_every_file_is_kept_or_in_conflict(
    files: Mapping[str, Sequence[str]], owners: Mapping[str, str]
) -> None:
    results: list[ParsedFile] = [a_result(name, *dag_ids) for name, dag_ids in files.items()]
    stored: dict[str, StoredFile] = {}
    for dag_id, owner in owners.items():
        stored[owner] = StoredFile(owner, None, (*(stored[owner].dag_ids if owner in stored else ()), dag_id), False)

    claims = assign(results, owners=owners, stored=stored)

    kept = [(c.file, dag_id) for dag_id, c in claims.kept.items()]
    refused = [(file, c.dag_id) for file, found in claims.conflicts.items() for c in found]
    assert sorted([*kept, *refused]) == sorted((r.name, d.dag_id) for r in results for d in r.dags)


def test_a_conflict_is_the_error_of_the_second_file_and_names_the_first() -> None:
    row = file_row(a_result("b.py", "x", "y"), kept=["y"], conflicts=[Conflict("x", "a.py")], previous=None)

    assert row.dag_ids == ("y",)
    assert row.error == "DAG 'x' is already defined in a.py. Give one of them another dag_id, or remove it."


def test_a_file_with_an_error_still_has_the_dags_of_before() -> None:
    previous = StoredFile("a.py", "d0", ("x",), has_error=False)

    row = file_row(a_result("a.py", error="no"), kept=[], conflicts=(), previous=previous)

    assert (row.dag_ids, row.error, row.error_line) == (("x",), "ValueError: no", 3)


def test_without_conflicts_there_is_no_message() -> None:
    assert conflict_message((), "a.py") is None
    assert "twice in this file" in (conflict_message([Conflict("x", "a.py")], "a.py") or "")


def test_a_pool_that_does_not_exist_is_a_warning_that_says_what_to_do() -> None:
    (warning,) = pool_warnings([a_dag("x", pool="etl"), a_dag("y")], {"default_pool"})

    assert "'x'" in warning
    assert "aiosched pools set etl SLOTS" in warning
