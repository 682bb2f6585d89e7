"""`aiosched users` and `aiosched tokens`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from aiosched.db.people import accounts, web_sessions
from aiosched.db.people.local_logins import make_local_user
from aiosched.web.auth.passwords import hash_token
from tests.cli.conftest import Cli


def create(on_db: Cli, name: str, role: str, password: str = "correct horse") -> Any:
    return on_db("users", "create", name, "--role", role, input=f"{password}\n")


def test_a_person_is_added_changed_and_removed(on_db: Cli) -> None:
    create(on_db, "ann", "admin")
    create(on_db, "bob", "viewer")
    on_db("user", "role", "bob", "operator")
    on_db("users", "password", "bob", input="another horse\n")
    on_db("users", "disable", "bob")
    before = on_db.json("users", "list")
    on_db("users", "delete", "bob", "--yes")

    assert [(user["name"], user["role"], user["is_disabled"]) for user in before] == [
        ("ann", "admin", False),
        ("bob", "operator", True),
    ]
    assert "password" not in before[0]
    assert [user["name"] for user in on_db.json("users", "list")] == ["ann"]


@pytest.mark.parametrize(("option", "left"), [((), 0), (("--keep-tokens",), 1)])
def test_another_password_ends_tokens_unless_they_are_kept(on_db: Cli, option: Sequence[str], left: int) -> None:
    create(on_db, "bob", "viewer")
    on_db("tokens", "create", "bob")

    on_db("users", "password", "bob", *option, input="another horse\n")

    assert len(on_db.json("tokens", "list")) == left


@pytest.mark.parametrize(
    ("words", "input", "code", "said"),
    [
        (("create", "bob", "--role", "admn"), "correct horse\n", 2, "Did you mean admin?"),
        (("create", "bob", "--role", "viewer"), "short\n", 4, "at least 8 characters"),
        (("create", "a b"), "correct horse\n", 2, "cannot be a user's name"),
        (("create", "ann"), "correct horse\n", 4, "The user 'ann' already exists"),
        (("role", "an", "viewer"), None, 3, "Did you mean ann?"),
        (("role", "ann", "viewer"), None, 4, "the last administrator"),
        (("delete", "ann", "--yes"), None, 4, "the last administrator"),
    ],
)
def test_what_cannot_be_is_told(on_db: Cli, words: tuple[str, ...], input: str | None, code: int, said: str) -> None:
    create(on_db, "ann", "admin")

    assert said in on_db("users", *words, input=input, code=code).stderr


def test_a_token_is_printed_once_and_can_be_revoked(on_db: Cli) -> None:
    create(on_db, "ann", "admin")
    token = on_db("tokens", "create", "ann", "--label", "ci", "--role", "operator").stdout.strip()
    owner = on_db.work(lambda db: accounts.use_token(db, hash_token(token), days_without_login=30))
    (listed,) = on_db.json("tokens", "list")
    on_db("token", "revoke", str(listed["id"]))

    assert owner is not None
    assert (owner.owner, owner.role) == ("ann", "operator")
    assert token not in str(listed)
    assert on_db.work(lambda db: accounts.use_token(db, hash_token(token), days_without_login=30)) is None
    assert on_db("tokens", "create", "nobody", code=3).stderr


def test_a_token_for_somebody_who_is_not_there_says_whose_it_can_be(on_db: Cli) -> None:
    """As after `aiosched serve` without any login: its user is called local, not admin."""
    service = "aiosched users create admin --role viewer --service"
    said = on_db("tokens", "create", "admin", code=3).stderr
    assert service in said
    assert "local" not in said
    on_db.work(make_local_user)
    said = on_db("tokens", "create", "admin", code=3).stderr
    assert "aiosched tokens create local. " in said

    on_db("tokens", "create", "local")
    on_db(*service.split()[1:])
    on_db("tokens", "create", "admin")
    assert {row["owner"] for row in on_db.json("tokens", "list")} == {"local", "admin"}
    assert "'a; b' --role" in on_db("tokens", "create", "a; b", code=3).stderr


def test_sessions_are_listed_and_ended(on_db: Cli) -> None:
    create(on_db, "ann", "viewer")
    for number in range(2):
        on_db.work(
            lambda db, number=number: web_sessions.start_session(
                db, "ann", f"hash {number}", seconds=60, address="192.0.2.7", agent="Firefox"
            )
        )

    listed = on_db.json("users", "sessions", "ann")
    ended = on_db.json("users", "log-out", "ann")

    assert [(one["user"], one["address"], one["agent"]) for one in listed] == [("ann", "192.0.2.7", "Firefox")] * 2
    assert ended == {"name": "ann", "ended": 2, "tokens": 0}
    assert on_db.json("users", "sessions", "ann") == []


def test_roles_are_granted_for_some_dags_and_taken_away(on_db: Cli) -> None:
    create(on_db, "ann", "none")
    on_db("users", "grant", "ann", "viewer", "--tag", "etl")
    on_db("users", "grant", "ann", "viewer", "--folder", "git:sales/")
    on_db("users", "grant", "ann", "operator", "--team", "alpha")
    on_db("users", "grant", "ann", "editor", "--team", "alpha")  # instead of operator
    on_db("users", "grant", "ann", "viewer", "--dags", "sales_*")
    on_db("users", "ungrant", "ann", "--tag", "etl")

    assert [(one["role"], one["where"]) for one in on_db.json("users", "grants", "ann")] == [
        ("viewer", "dags:sales_*"),
        ("viewer", "folder:git:sales"),
        ("editor", "team:alpha"),
    ]
    on_db("users", "grant", "ann", "viewer", "--everywhere")
    assert on_db.json("users", "list")[0]["role"] == "viewer"
    on_db("users", "ungrant", "ann", "--everywhere")
    assert on_db.json("users", "list")[0]["role"] == "none"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("grant", "ann", "viewer"), 2, "Say where"),
        (("grant", "ann", "viewer", "--tag", "a", "--team", "b"), 2, "Say where"),
        (("grant", "ann", "viewr", "--tag", "a"), 2, "Did you mean viewer?"),
        (("grant", "an", "viewer", "--tag", "a"), 3, "Did you mean ann?"),
        (("grant", "ann", "viewer", "--folder", "../x"), 2, "is no folder"),
        (("ungrant", "ann", "--tag", "a"), 3, "has no grant for tag 'a'"),
    ],
)
def test_a_grant_that_cannot_be_is_told(on_db: Cli, words: tuple[str, ...], code: int, said: str) -> None:
    create(on_db, "ann", "viewer")

    assert said in on_db("users", *words, code=code).stderr


def test_a_token_with_grants_is_listed_with_them(on_db: Cli) -> None:
    create(on_db, "ann", "operator")
    on_db("tokens", "create", "ann", "--grant", "viewer@tag:etl", "--grant", "viewer@dags:sales_*")

    assert on_db.json("tokens", "list")[0]["grants"] == ["viewer@tag:etl", "viewer@dags:sales_*"]
    assert "begins with no role" in on_db("tokens", "create", "ann", "--grant", "tag:etl", code=2).stderr
