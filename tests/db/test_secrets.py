"""Variables and connections are encrypted at rest, and their keys rotate."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from aiosched.config import Settings
from aiosched.core.values.connections import ConnectionValue
from aiosched.db.crypto.keyring import Keyring, new_key
from aiosched.db.names.existing import IfExists
from aiosched.db.people.secrets import Change, SecretStore, VariableValue
from aiosched.db.server.engine import Database
from aiosched.errors import ConfigError, NotFound, Refused

SALES = ConnectionValue.from_uri("sales", "postgres://user:hunter2@db:5432/x?token=tok-123")


@pytest.fixture
def store(db: Database) -> SecretStore:
    return SecretStore(db, Keyring(new_key()))


def text(value: str) -> VariableValue:
    return VariableValue(value)


async def dump(db: Database) -> str:
    """Everything that the tables hold, as text."""
    async with db.acquire() as conn:
        rows = [
            *await conn.fetch("SELECT v::text FROM variable AS v"),
            *await conn.fetch("SELECT c::text FROM connection AS c"),
            *await conn.fetch("SELECT c::text FROM request AS c"),
        ]
    return "\n".join(row[0] for row in rows)


async def test_no_plain_text_is_in_the_tables(db: Database, store: SecretStore) -> None:
    await store.set_variables({"region": VariableValue("eu-west-1", "where")}, requested_by="me")
    await store.set_connections([SALES], requested_by="me")

    stored = await dump(db)

    assert [word for word in ("eu-west-1", "hunter2", "tok-123", "5432") if word in stored] == []
    assert [word for word in ("region", "sales", "postgres", "where") if word not in stored] == []
    assert (await store.get_variable("region")) == VariableValue("eu-west-1", "where", is_secret=False)
    assert (await store.get_connection("sales")) == SALES


async def test_setting_says_what_changed_and_keeps_a_description(store: SecretStore) -> None:
    first = await store.set_variables({"a": VariableValue("1", "one"), "b": text("2")})
    second = await store.set_variables({"a": text("1"), "b": text("3")})

    assert first == {"a": Change.CREATED, "b": Change.CREATED}
    assert second == {"a": Change.UNCHANGED, "b": Change.CHANGED}
    assert (await store.get_variable("a")).description == "one"


@pytest.mark.parametrize(("existing", "value"), [(IfExists.OVERWRITE, "new"), (IfExists.SKIP, "old")])
async def test_what_exists_is_overwritten_or_skipped(store: SecretStore, existing: IfExists, value: str) -> None:
    await store.set_variables({"a": text("old")})

    await store.set_variables({"a": text("new"), "b": text("new")}, existing=existing)

    assert {key: one.value for key, one in (await store.get_variables(["a", "b"])).items()} == {"a": value, "b": "new"}


async def test_a_store_that_must_be_new_changes_nothing_when_one_exists(store: SecretStore) -> None:
    await store.set_connections([SALES])
    other = ConnectionValue.from_uri("other", "http://h")

    with pytest.raises(Refused, match="'sales' exists already"):
        await store.set_connections([SALES, other], existing=IfExists.FAIL)

    assert [info.conn_id for info in await store.list_connections()] == ["sales"]


async def test_what_is_not_there_is_not_found_with_near_names(store: SecretStore) -> None:
    await store.set_variables({"region": text("x")})
    await store.set_connections([SALES])

    for work in (store.get_variable("regoin"), store.delete_variable("regoin")):
        with pytest.raises(NotFound, match="Did you mean region"):
            await work
    for other in (store.get_connection("sale"), store.delete_connection("sale")):
        with pytest.raises(NotFound, match="Did you mean sales"):
            await other


async def test_deleting_deletes(db: Database, store: SecretStore) -> None:
    await store.set_variables({"region": text("x")})
    await store.set_connections([SALES])

    await store.delete_variable("region", requested_by="me")
    await store.delete_connection("sales", requested_by="me")

    assert (await store.list_variables(), await store.list_connections()) == ([], [])
    verbs = [row[0] for row in await db.fetch("SELECT verb FROM request ORDER BY id")]
    assert verbs == ["delete_variable", "delete_connection"]


@pytest.mark.parametrize("key", ["", "x" * 251, "line\nbreak"])
async def test_a_bad_key_is_refused(store: SecretStore, key: str) -> None:
    with pytest.raises(Refused, match="1 to 250 printable"):
        await store.set_variables({key: text("x")})


@pytest.mark.parametrize("key", [".", "..", "  ", " a", "a "])
async def test_a_new_variable_has_a_key_that_an_address_can_have(db: Database, store: SecretStore, key: str) -> None:
    with pytest.raises(Refused, match="choose another"):
        await store.set_variables({"a/b": text("1"), key: text("1")})
    assert await store.list_variables() == []
    await store.set_variables({"a/b": text("1")})
    await db.execute("UPDATE variable SET key = $1", key)

    await store.set_variables({key: text("2")})
    assert (await store.get_variable(key)).value == "2"
    await store.delete_variable(key)


@pytest.mark.parametrize("conn_id", [".", ".."])
async def test_a_new_connection_has_an_id_that_an_address_can_have(
    db: Database, store: SecretStore, conn_id: str
) -> None:
    with pytest.raises(Refused, match="choose another"):
        await store.set_connections([ConnectionValue.from_uri(conn_id, "http://h")])
    await store.set_connections([SALES])
    await db.execute("UPDATE connection SET conn_id = $1", conn_id)

    await store.set_connections([ConnectionValue.from_uri(conn_id, "http://h")])
    assert (await store.get_connection(conn_id)).host == "h"
    await store.delete_connection(conn_id)


# ---- keys ----


async def test_without_a_key_an_external_database_stores_nothing_and_says_what_to_do(db: Database) -> None:
    keyring = Keyring.of(Settings.model_validate({"database": {"dsn": "postgresql://h/d"}}))

    with pytest.raises(Refused, match=r"aiosched db make-key.*AIOSCHED__SECRETS__FERNET_KEYS__FILE"):
        await SecretStore(db, keyring).set_variables({"a": text("1")})


async def test_the_embedded_database_has_a_key_file_that_is_made_with_the_first_secret(
    db: Database, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    store = SecretStore(db, Keyring.of(Settings.model_validate({"core": {"home": home}})))
    assert await store.get_variables(["a"]) == {}
    assert not home.exists()

    await store.set_variables({"a": text("1")})

    assert stat.S_IMODE((home / "fernet.key").stat().st_mode) == 0o600
    assert [path.name for path in home.iterdir()] == ["fernet.key"]
    again = SecretStore(db, Keyring(file=home / "fernet.key"))
    assert (await again.get_variable("a")).value == "1"


async def test_a_key_file_that_got_lost_is_not_replaced(db: Database, tmp_path: Path) -> None:
    store = SecretStore(db, Keyring(file=tmp_path / "fernet.key"))
    await store.set_variables({"a": text("1")})
    (tmp_path / "fernet.key").unlink()

    with pytest.raises(Refused, match="is gone, and there are secrets that only its key"):
        await store.set_variables({"b": text("2")})
    with pytest.raises(Refused, match="Restore it from a backup"):
        await store.get_variable("a")

    await store.delete_variable("a")
    await store.set_variables({"b": text("2")})


async def test_every_key_decrypts_and_the_first_one_encrypts(db: Database) -> None:
    old, new = new_key(), new_key()
    await SecretStore(db, Keyring(old)).set_variables({"a": text("1")})

    both = SecretStore(db, Keyring(f" {new} , {old} "))
    await both.set_variables({"b": text("2")})

    assert {key: one.value for key, one in (await both.get_variables(["a", "b"])).items()} == {"a": "1", "b": "2"}
    assert (await SecretStore(db, Keyring(new)).get_variable("b")).value == "2"
    with pytest.raises(Refused, match="No key that this process has can decrypt variable 'a'"):
        await SecretStore(db, Keyring(new)).get_variable("a")


async def test_after_a_rotation_the_old_key_is_not_needed(db: Database) -> None:
    old, new = new_key(), new_key()
    before = SecretStore(db, Keyring(old))
    await before.set_variables({"a": text("1")})
    await before.set_connections([SALES])

    rows = await SecretStore(db, Keyring(f"{new},{old}")).rotate(requested_by="me")

    after = SecretStore(db, Keyring(new))
    assert rows == 2
    assert (await after.get_variable("a")).value == "1"
    assert await after.get_connection("sales") == SALES
    with pytest.raises(Refused):
        await before.get_variable("a")


async def test_a_key_file_is_rotated_with_a_new_key_and_running_processes_notice(db: Database, tmp_path: Path) -> None:
    path = tmp_path / "fernet.key"
    running, store = SecretStore(db, Keyring(file=path)), SecretStore(db, Keyring(file=path))
    await running.set_variables({"a": text("1")})
    (first,) = path.read_text().split()

    await store.rotate()

    keys = path.read_text().split()
    assert (len(keys), keys[1]) == (2, first)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (await running.get_variable("a")).value == "1"
    assert (await SecretStore(db, Keyring(keys[0])).get_variable("a")).value == "1"


async def test_a_rotation_that_cannot_read_something_changes_nothing(db: Database) -> None:
    old, lost, new = new_key(), new_key(), new_key()
    await SecretStore(db, Keyring(old)).set_variables({"a": text("1")})
    await SecretStore(db, Keyring(lost)).set_variables({"b": text("2")})
    before = await dump(db)

    with pytest.raises(Refused, match="decrypt variable 'b'"):
        await SecretStore(db, Keyring(f"{new},{old}")).rotate()

    assert await dump(db) == before


async def test_what_no_key_decrypts_may_be_set_anew(db: Database) -> None:
    await SecretStore(db, Keyring(new_key())).set_variables({"a": text("1")})
    store = SecretStore(db, Keyring(new_key()))

    changes = await store.set_variables({"a": text("1")})

    assert changes == {"a": Change.CHANGED}
    assert (await store.get_variable("a")).value == "1"


@pytest.mark.parametrize("keys", ["short", f"{new_key()},x"], ids=["short", "second"])
def test_a_key_that_is_none_is_a_wrong_setting_and_is_not_quoted(keys: str) -> None:
    with pytest.raises(ConfigError, match=r"of secrets.fernet_keys is not a Fernet key") as caught:
        Keyring(keys).encrypt("x")

    assert keys.split(",")[-1] not in str(caught.value).split()


async def test_values_may_be_any_text(store: SecretStore) -> None:
    values = {"nul": "a\0b", "long": "x" * 100_000, "unicode": "größe ☃", "empty": ""}

    await store.set_variables({key: text(value) for key, value in values.items()})

    assert {key: one.value for key, one in (await store.get_variables(list(values))).items()} == values


async def test_statements_work_on_older_servers(older_db: Database) -> None:
    store = SecretStore(older_db, Keyring(new_key()))
    await store.set_variables({"a": text(json.dumps({"b": 1}))})
    await store.set_connections([SALES])

    assert await store.rotate() == 2


async def test_a_description_is_kept_or_emptied(store: SecretStore) -> None:
    await store.set_variables({"a": VariableValue("1", "one")})

    kept = await store.set_variables({"a": text("1")})
    emptied = await store.set_variables({"a": VariableValue("1", "")})

    assert (kept["a"], emptied["a"]) == (Change.UNCHANGED, Change.CHANGED)
    assert (await store.get_variable("a")).description is None
