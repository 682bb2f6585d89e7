"""Database addresses: what is read, what is shown."""

from __future__ import annotations

import pytest

from aiosched.db.server.dsn import Address, address_of, normalize, password_of, with_database, without_password
from aiosched.errors import ConfigError


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+asyncpg", "postgres+asyncpg"])
def test_every_usual_scheme_means_postgresql(scheme: str) -> None:
    assert normalize(f"{scheme}://ann@db:5433/jobs") == "postgresql://ann@db:5433/jobs"


@pytest.mark.parametrize("dsn", ["sqlite:///x.db", "mysql://db/x", "db:5432/jobs", "", "postgresql://db:port/x"])
def test_anything_else_is_a_configuration_error_that_shows_the_right_form(dsn: str) -> None:
    with pytest.raises(ConfigError, match=r"[Cc]orrect") as caught:
        normalize(dsn)

    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("dsn", "expected"),
    [
        ("postgresql://ann:pw@db.example:5433/jobs", Address("db.example", 5433, "ann", "jobs")),
        ("postgresql://db/jobs", Address("db", 5432, None, "jobs")),
        ("postgresql:///jobs", Address("localhost", 5432, None, "jobs")),
        ("postgresql://ann@/jobs?host=/run/pg", Address("/run/pg", 5432, "ann", "jobs")),
        ("postgresql:///?host=/run/pg&port=6000&user=ann&dbname=jobs", Address("/run/pg", 6000, "ann", "jobs")),
        ("postgresql://a%40b:x@%2Frun%2Fpg/my%20jobs", Address("/run/pg", 5432, "a@b", "my jobs")),
        ("postgresql://ann:pw@one:1,two:2/jobs", Address("one:1,two:2", 5432, "ann", "jobs")),
        ("postgresql://[::1]:5433/jobs", Address("::1", 5433, None, "jobs")),
    ],
)
def test_an_address_names_host_port_user_and_database(dsn: str, expected: Address) -> None:
    assert address_of(dsn) == expected


@pytest.mark.parametrize(
    ("dsn", "shown", "password"),
    [
        ("postgresql://ann:p%40w@db:1/jobs?sslmode=require", "postgresql://ann@db:1/jobs?sslmode=require", "p@w"),
        ("postgresql://ann@/jobs?host=/run/pg&password=pw", "postgresql://ann@/jobs?host=/run/pg", "pw"),
        ("postgresql:///jobs?host=/run/pg", "postgresql:///jobs?host=/run/pg", None),
    ],
)
def test_a_password_is_taken_out_of_what_is_shown(dsn: str, shown: str, password: str | None) -> None:
    assert without_password(dsn) == shown
    assert password_of(dsn) == password


@pytest.mark.parametrize(
    ("dsn", "expected"),
    [
        ("postgresql://ann:pw@db:1/jobs?sslmode=require", "postgresql://ann:pw@db:1/other?sslmode=require"),
        ("postgresql://ann@/?host=/run/pg&dbname=jobs", "postgresql://ann@/other?host=/run/pg"),
        ("postgresql://db", "postgresql://db/other"),
        ("postgresql:///jobs?host=/run/pg", "postgresql:///other?host=/run/pg"),
    ],
)
def test_the_database_of_an_address_can_be_replaced(dsn: str, expected: str) -> None:
    assert with_database(dsn, "other") == expected
