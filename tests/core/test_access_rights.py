"""Roles, grants and rights: what they cover, how they are written, and that nothing adds up to more than was given."""

from __future__ import annotations

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.access.dag_control import read_control
from aiosched.core.access.grants import FilePlace, GrantKind, GuardedDag, RoleGrant, readable
from aiosched.core.access.rights import PersonRights
from aiosched.core.access.roles import Role, find_role
from aiosched.errors import ConfigError

_WORDS = st.sampled_from(["a", "b", "sales", "sales/x", "etl"])
_ROLES = st.sampled_from([Role.VIEWER, Role.OPERATOR, Role.EDITOR, Role.ADMIN])
_PLACES = st.builds(FilePlace, st.sampled_from(["", "git"]), st.sampled_from(["sales/x.py", "sales.py", "b/c.py"]),
                    st.sampled_from([None, "a", "b"]))  # fmt: skip
_DAGS = st.builds(
    GuardedDag,
    _WORDS,
    st.frozensets(_WORDS, max_size=2),
    st.none() | _PLACES,
    st.dictionaries(_WORDS, st.sampled_from([Role.VIEWER, Role.OPERATOR]), max_size=2),
)


@st.composite
def grants(draw: st.DrawFn) -> RoleGrant:
    kind = draw(st.sampled_from(GrantKind))
    return RoleGrant(draw(_ROLES), kind, "" if kind is GrantKind.EVERYWHERE else draw(_WORDS))


_RIGHTS = st.builds(
    PersonRights,
    st.lists(grants(), max_size=4).map(tuple),
    st.frozensets(_WORDS, max_size=2),
    st.none() | st.lists(grants(), max_size=3).map(tuple),
    _ROLES,
)


@pytest.mark.parametrize(
    ("text", "dag", "covers"),
    [
        ("viewer", GuardedDag("x"), True),
        ("viewer@everywhere", GuardedDag("x"), True),
        ("viewer@tag:etl", GuardedDag("x", frozenset({"etl"})), True),
        ("viewer@tag:etl", GuardedDag("etl", frozenset({"etl2"})), False),
        ("viewer@dags:sales_*", GuardedDag("sales_daily"), True),
        ("viewer@dags:sales_*", GuardedDag("my_sales_daily"), False),
        ("viewer@dags:s?les", GuardedDag("sales"), True),
        ("viewer@dags:s[a]les", GuardedDag("sales"), False),
        ("viewer@folder:sales", GuardedDag("x", place=FilePlace("", "sales/x.py")), True),
        ("viewer@folder:sales", GuardedDag("x", place=FilePlace("", "sales2/x.py")), False),
        ("viewer@folder:sales", GuardedDag("x", place=FilePlace("git", "sales/x.py")), False),
        ("viewer@folder:git:sales/", GuardedDag("x", place=FilePlace("git", "sales/a/x.py")), True),
        ("viewer@folder:git:", GuardedDag("x", place=FilePlace("git", "x.py")), True),
        ("viewer@folder:", GuardedDag("x", place=FilePlace("git", "x.py")), False),
        ("viewer@folder:sales", GuardedDag("x"), False),
        ("viewer@team:a", GuardedDag("x", place=FilePlace("", "x.py", "a")), True),
        ("viewer@team:a", GuardedDag("a", frozenset({"a"}), FilePlace("", "a/x.py", "b")), False),
        ("viewer@team:a", GuardedDag("x"), False),
    ],
)
def test_a_grant_covers_what_it_names(text: str, dag: GuardedDag, covers: bool) -> None:
    assert RoleGrant.parse(text).covers(dag) is covers


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "begins with no role"),
        ("public", "begins with no role"),
        ("none@team:a", "begins with no role"),
        ("viewr@team:a", "Did you mean viewer"),
        ("viewer@", "does not say where"),
        ("viewer@pool:a", "does not say where"),
        ("viewer@team:", "no name of a team"),
        ("viewer@tag:a\nb", "no name of a tag"),
        ("viewer@folder:../etc", "no folder"),
        ("viewer@folder:a/../../b", "no folder"),
    ],
)
def test_a_text_that_is_no_grant_says_what_to_write(text: str, word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        RoleGrant.parse(text)


@given(grants())
def test_a_grant_is_written_as_it_is_read(grant: RoleGrant) -> None:
    assert RoleGrant.parse(str(grant)) == grant


def test_a_stored_grant_of_a_newer_version_gives_nothing() -> None:
    assert readable(["auditor@team:a", "viewer@planet:x", "viewer@team:a"]) == (RoleGrant.parse("viewer@team:a"),)


@given(st.text("ab*?", max_size=8), st.text("ab", max_size=8))
def test_a_glob_selects_what_its_stars_and_question_marks_say(pattern: str, dag_id: str) -> None:
    grant = RoleGrant(Role.VIEWER, GrantKind.DAGS, pattern)

    assert grant.covers(GuardedDag(dag_id)) is fnmatch.fnmatchcase(dag_id, pattern)


def test_a_glob_of_many_stars_is_matched_in_no_time() -> None:
    assert not RoleGrant(Role.VIEWER, GrantKind.DAGS, "*a" * 200 + "b").covers(GuardedDag("a" * 250))


@given(_RIGHTS, _DAGS)
def test_no_dag_gives_more_than_what_is_possible(rights: PersonRights, dag: GuardedDag) -> None:
    role = rights.on_dag(dag)

    assert rights.everywhere <= role <= rights.possible
    assert rights.granted <= rights.possible


@given(_RIGHTS, _DAGS, grants())
def test_another_grant_takes_nothing_away(rights: PersonRights, dag: GuardedDag, grant: RoleGrant) -> None:
    more = PersonRights((*rights.grants, grant), rights.groups, rights.limits, rights.highest)

    assert more.on_dag(dag) >= rights.on_dag(dag)


@given(_RIGHTS, _DAGS, st.lists(grants(), max_size=3).map(tuple), _ROLES)
def test_a_token_can_never_do_what_its_owner_cannot(
    owner: PersonRights, dag: GuardedDag, limits: tuple[RoleGrant, ...], highest: Role
) -> None:
    token = PersonRights(owner.grants, owner.groups, limits, min(highest, owner.highest))
    owner = PersonRights(owner.grants, owner.groups, None, owner.highest)

    assert token.on_dag(dag) <= min(owner.on_dag(dag), highest)
    assert token.everywhere <= owner.everywhere
    assert token.on_team("a") <= owner.on_team("a")


@given(_DAGS, st.frozensets(_WORDS))
def test_an_author_makes_nobody_more_than_an_operator(dag: GuardedDag, groups: frozenset[str]) -> None:
    assert PersonRights((), groups).on_dag(dag) <= Role.OPERATOR


def test_an_author_names_groups_and_teams() -> None:
    dag = GuardedDag("x", control={"sales": Role.OPERATOR})

    assert PersonRights((RoleGrant.parse("viewer@team:sales"),)).on_dag(dag) is Role.OPERATOR
    assert PersonRights((), frozenset({"sales"})).on_dag(dag) is Role.OPERATOR
    assert PersonRights((RoleGrant.parse("viewer@tag:sales"),)).on_dag(dag) is Role.NONE


def test_what_belongs_to_nobody_is_seen_by_all_and_changed_by_those_with_a_role_everywhere() -> None:
    of_team = PersonRights((RoleGrant.parse("editor@team:a"),))

    assert (of_team.on_team("a"), of_team.on_team("b"), of_team.on_team(None)) == (Role.EDITOR, Role.NONE, Role.VIEWER)
    assert PersonRights((RoleGrant.parse("editor"),)).on_team(None) is Role.EDITOR
    assert PersonRights().on_team(None) is Role.NONE


@pytest.mark.parametrize(
    ("control", "roles"),
    [
        ({}, {}),
        ({"a": {"can_read"}}, {"a": "viewer"}),
        ({"a": ["can_read", "can_edit"], "b": "can_read"}, {"a": "operator", "b": "viewer"}),
        ({"a": {"DAGs": {"can_read"}, "DAG Runs": {"can_create"}}}, {"a": "operator"}),
        ({"a": {"can_delete"}}, {"a": "operator"}),
        ({"a": set()}, {}),
    ],
)
def test_access_control_is_read_in_the_shapes_of_airflow(control: object, roles: dict[str, str]) -> None:
    assert read_control(control) == roles


@pytest.mark.parametrize(
    ("control", "word"),
    [([], "is no dict"), ({"a": {"can_fly"}}, "can_fly"), ({"a": {"Pools": {"can_read"}}}, "Pools"), ({"a": 7}, "7"),
     ({1: {"can_read"}}, "no name")],
)  # fmt: skip
def test_an_unusable_access_control_says_what_to_write(control: object, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        read_control(control)


def test_roles_are_known_by_their_words() -> None:
    assert [find_role(word) for word in ("none", "editor", "public", "king")] == [Role.NONE, Role.EDITOR, None, None]
