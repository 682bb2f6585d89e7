"""`Connection` as an object: its forms, its changes, and the hooks of its type."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from aiosched import BaseHook, Connection
from aiosched.authoring.runtime import provider_hooks
from aiosched.errors import ConfigError
from aiosched.providers import ConnectionType


class SalesHook(BaseHook):
    conn_name_attr = "sales_conn_id"

    def __init__(self, sales_conn_id: str = "sales_default", limit: int = 1) -> None:
        super().__init__()
        self.sales_conn_id, self.limit = sales_conn_id, limit

    def test_connection(self) -> tuple[bool, str]:
        return True, f"hello from {self.sales_conn_id}"


@pytest.fixture
def sales(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    one = ConnectionType("sales", f"{__name__}.SalesHook", "sales-provider", "Sales", (), {}, {}, {})
    gone = ConnectionType("gone", f"{__name__}.NoHook", "sales-provider", "Gone", (), {}, {}, {})
    monkeypatch.setattr(provider_hooks, "connection_types", lambda: {"sales": one, "gone": gone})
    return iter(())


def test_a_uri_leaves_empty_texts_where_airflow_has_them() -> None:
    found = Connection(conn_id="c", uri="http://:secret@")

    assert (found.conn_type, found.host, found.schema, found.password) == ("http", "", "", "secret")
    assert Connection(conn_id="c", conn_type="http").host is None


def test_fields_can_be_changed_without_changing_anything_stored() -> None:
    found = Connection(conn_id="c", uri="postgres://me:secret@db:5432/sales")

    found.set_password("other")
    found.login = "you"  # type: ignore[misc] # frozen only in its base

    assert found.get_uri() == "postgres://you:other@db:5432/sales"


def test_json_goes_both_ways() -> None:
    found = Connection(conn_id="c", conn_type="http", host="h", port=80, extra={"verify": False})

    again = Connection.from_json(found.as_json(), "c")

    assert again == found
    assert json.loads(found.as_json()) == {"conn_type": "http", "host": "h", "port": 80, "extra": {"verify": False}}
    assert found.to_dict()["login"] is None


def test_nested_json_in_extras_is_read_when_asked() -> None:
    found = Connection(conn_id="c", conn_type="x", extra={"a": '{"b": 1}', "text": "plain"})

    assert found.get_extra_dejson() == {"a": '{"b": 1}', "text": "plain"}
    assert found.get_extra_dejson(nested=True) == {"a": {"b": 1}, "text": "plain"}


@pytest.mark.usefixtures("sales")
def test_the_hook_of_its_type_is_made_for_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOSCHED_CONN_SHOP", "sales://host")

    hook: Any = BaseHook.get_hook("shop", hook_params={"limit": 5})

    assert isinstance(hook, SalesHook)
    assert (hook.sales_conn_id, hook.limit) == ("shop", 5)
    assert hook.log.name.endswith("SalesHook")
    assert Connection.get("shop").test_connection() == (True, "hello from shop")


@pytest.mark.usefixtures("sales")
@pytest.mark.parametrize(
    ("kind", "says"),
    [("sale", "Did you mean sales.*aiosched providers install"), ("gone", "cannot be imported.*sales-provider")],
)
def test_a_type_without_a_usable_hook_says_what_to_install(kind: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Connection(conn_id="c", conn_type=kind).get_hook()
