"""JSON values that are out of bounds are refused by the command line, before any scheduler sees them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aiosched.db.crypto.keyring import new_key
from tests.cli.conftest import Cli
from tests.cli.records import add_dag


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"n": 2**64}, "conf['n'] is an integer of more than 64 bits: give it as text."),
        ({"n": nested(400)}, "is nested more than 64 levels deep: give it as text."),
        ({"n": "a\0b"}, "conf['n'] has a NUL character, which cannot be stored: remove it."),
    ],
    ids=["large", "deep", "NUL"],
)
def test_a_conf_out_of_bounds_is_refused_with_the_place(on_db: Cli, value: dict[str, Any], problem: str) -> None:
    on_db.work(lambda db: add_dag(db, "sales"))

    assert problem in on_db("dags", "trigger", "sales", "--conf", json.dumps(value), code=2).stderr
    assert on_db.json("requests", "list") == []


def test_a_variable_of_megabytes_is_refused(on_db: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOSCHED__SECRETS__FERNET_KEYS", new_key())
    on_db("variables", "set", "small", "x")

    refused = on_db("variables", "set", "huge", "-", input="x" * 1_000_001, code=4).stderr

    assert "The value of 'huge' has 1,000,001 characters, allowed are 1,000,000." in refused
