"""The forms of a connection: fields, URI, JSON."""

from __future__ import annotations

import json
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.values.connections import ConnectionValue
from aiosched.errors import ConfigError


@pytest.mark.parametrize(
    ("uri", "fields"),
    [
        (
            "postgres://user:p%40ss@db.example.com:5432/sales?sslmode=require",
            {"conn_type": "postgres", "login": "user", "password": "p@ss", "host": "db.example.com", "port": 5432,
             "schema": "sales", "extra": '{"sslmode": "require"}'},
        ),
        ("postgresql://", {"conn_type": "postgres"}),
        ("google-cloud-platform://?project=x&empty=",
         {"conn_type": "google_cloud_platform", "extra": '{"project": "x", "empty": ""}'}),
        ("http://https://api.example.com:444/v1",
         {"conn_type": "http", "host": "https://api.example.com", "port": 444, "schema": "v1"}),
        ("aws://key:s%2Fecret@/?__extra__=%7B%22region%22%3A%201%7D",
         {"conn_type": "aws", "login": "key", "password": "s/ecret", "extra": '{"region": 1}'}),
        ("redis://:pw@cache", {"conn_type": "redis", "password": "pw", "host": "cache"}),
        ("mysql://[::1]:3306/", {"conn_type": "mysql", "host": "[::1]", "port": 3306}),
        ("sqlite:///%2Ftmp%2Fx.db", {"conn_type": "sqlite", "schema": "/tmp/x.db"}),
        ("x://@:99", {"conn_type": "x", "port": 99}),
        ("x://me:a:b@c@h", {"conn_type": "x", "login": "me", "password": "a:b@c", "host": "h"}),
    ],
)  # fmt: skip
def test_a_uri_is_read_as_airflow_reads_it(uri: str, fields: dict[str, Any]) -> None:
    assert ConnectionValue.from_uri("c", uri).as_fields() == fields


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("no type at all", "does not begin with a type"),
        ("postgres://user:hunter2#x@host", "no readable host and port"),
        ("postgres://host:port", "no readable host and port"),
        ("postgres://host:" + "9" * 5_000, "no readable host and port"),
        ("postgres://:[" + "@[a" * 200_000 + "#", "no readable host and port"),
        ("postgres://host:70000", "1 to 65535"),
        ('{"conn_type": "x", "hots": "typo"}', "has no field hots"),
        ('{"conn_type": "x", "port": "many"}', "1 to 65535"),
        ('{"conn_type": "x", "host": 3}', "host must be text"),
        ('{"conn_type": "x", "extra": "[1]"}', "extra must be a JSON object"),
        ("{broken", "neither a URI nor a JSON object"),
    ],
)
def test_what_is_no_connection_is_refused_without_quoting_it(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as caught:
        ConnectionValue.from_text("mine", text)

    assert "'mine'" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_name_must_be_one() -> None:
    with pytest.raises(ConfigError, match="cannot be the name of a connection"):
        ConnectionValue(conn_id="a b")


def test_the_json_form_has_fields_or_a_uri() -> None:
    by_fields = ConnectionValue.from_text("c", '{"conn_type": "http", "host": "h", "port": "80", "extra": {"a": 1}}')
    by_uri = ConnectionValue.from_text("c", '{"uri": "http://h:80/?__extra__=%7B%22a%22%3A1%7D", "description": "d"}')

    assert (by_fields.port, by_fields.extra_dejson) == (80, {"a": 1})
    assert by_uri.as_fields() == {**by_fields.as_fields(), "description": "d"}


def test_neither_repr_nor_str_nor_the_masked_form_shows_secrets() -> None:
    connection = ConnectionValue.from_uri("sales", "postgres://user:hunter2@db/x?api_key=sk-123&sslmode=require")

    assert str(connection) == "sales"
    assert repr(connection) == "<Connection sales postgres://user:***@db/x?api_key=***&sslmode=require>"
    assert connection.masked().extra_dejson == {"api_key": "***", "sslmode": "require"}
    assert connection.masked().password == "***"


texts = st.one_of(st.none(), st.text(min_size=1).filter(lambda text: "://" not in text))
hosts = st.one_of(
    st.none(),
    st.text(string.ascii_letters + string.digits + ".-_@:/?#%", min_size=1).filter(lambda text: "://" not in text),
    st.sampled_from(["https://api.example.com", "[::1]"]),
)
encodable = st.text(st.characters(codec="utf-8"))
extras = st.one_of(
    st.none(), st.dictionaries(encodable, st.one_of(encodable, st.integers(), st.lists(encodable)), max_size=3)
)


@given(
    st.from_regex(r"[a-z][a-z0-9_]{0,10}", fullmatch=True),
    hosts,
    texts,
    texts,
    st.one_of(st.none(), st.integers(1, 65535)),
    texts,
    extras,
)
def test_a_uri_leads_back_to_the_same_connection(
    conn_type: str, host: str | None, login: str | None, password: str | None, port: int | None, schema: str | None,
    extra: Any,
) -> None:  # fmt: skip
    before = ConnectionValue(
        conn_id="c", conn_type=conn_type, host=host, login=login, password=password, port=port, schema=schema,
        extra=json.dumps(extra) if extra else None,
    )  # fmt: skip

    assert ConnectionValue.from_uri("c", before.get_uri()) == before
    assert ConnectionValue.from_fields("c", before.as_fields()) == before
