"""Paths in object stores, with files in memory and on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from aiosched import DAG, Connection, ObjectStoragePath, task
from aiosched.authoring.runtime import object_storage
from aiosched.authoring.runtime.object_storage import options_of
from aiosched.authoring.runtime.xcom_values import read_xcom
from aiosched.authoring.runtime.xcoms import TaskXCom
from aiosched.core.values.typed_json import PATH


@pytest.fixture(autouse=True)
def empty() -> Iterator[None]:
    """A file system in memory without files."""
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    memory.pseudo_dirs[:] = [""]
    yield
    memory.store.clear()


def test_a_path_is_made_of_parts() -> None:
    path = ObjectStoragePath("s3://aws@bucket/a/b.csv")

    assert (path.conn_id, path.bucket, path.container, path.key) == ("aws", "bucket", "bucket", "a/b.csv")
    assert (path.protocol, path.namespace, str(path)) == ("s3", "s3://bucket", "s3://bucket/a/b.csv")
    assert (path.parent / "c").conn_id == "aws"
    assert str(path.parent / "c") == "s3://bucket/a/c"
    assert path == ObjectStoragePath("s3://bucket/a/b.csv", conn_id="aws")
    assert path != ObjectStoragePath("s3://bucket/a/b.csv")
    assert len({path, ObjectStoragePath(path)}) == 1
    assert ObjectStoragePath.deserialize(path.serialize()) == path


def test_files_are_written_listed_and_read() -> None:
    folder = ObjectStoragePath("memory://bucket/data")
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("one")
    with (folder / "b.txt").open("wb") as file:
        file.write(b"0123456789")

    assert sorted(found.name for found in folder.iterdir()) == ["a.txt", "b.txt"]
    assert all(isinstance(found, ObjectStoragePath) for found in folder.iterdir())
    assert (folder / "b.txt").size() == 10
    assert (folder / "b.txt").read_block(2, 3) == b"234"
    assert (folder / "a.txt").ukey() != (folder / "b.txt").ukey()
    (folder / "a.txt").unlink()
    assert not (folder / "a.txt").exists()


def test_files_and_folders_are_copied_and_moved_between_stores(tmp_path: Path) -> None:
    source = ObjectStoragePath("memory://bucket/data")
    for name in ("a", "sub/b"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(name)
    here = ObjectStoragePath(f"file://{tmp_path}/here")

    source.copy(here, recursive=True)
    (source / "a").copy("memory://other/")
    (source / "a").copy_into(here)
    (here / "sub" / "b").move("memory://other/moved")

    assert (tmp_path / "here" / "a").read_text() == "a"
    assert not (tmp_path / "here" / "sub" / "b").exists()
    assert ObjectStoragePath("memory://other/a").read_text() == "a"
    assert ObjectStoragePath("memory://other/moved").read_text() == "sub/b"


def test_a_connection_is_read_when_a_file_is_first_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []

    def filesystem(protocol: str, **options: Any) -> Any:
        opened.append((protocol, options))
        return fsspec.get_filesystem_class("memory")()

    monkeypatch.setattr(object_storage.fsspec, "filesystem", filesystem)
    monkeypatch.setenv("AIOSCHED_CONN_STORE", '{"login": "me", "password": "s", "extra": {"a": 1, "b": 2}}')
    path = ObjectStoragePath("memory://store@bucket", b=3) / "file"
    assert opened == []

    path.write_text("x")

    assert path.read_text() == "x"
    assert opened[0] == ("memory", {"username": "me", "password": "s", "a": 1, "b": 3})


@pytest.mark.parametrize(
    ("protocol", "fields", "options"),
    [
        (
            "s3",
            {"login": "k", "password": "s", "extra": {"endpoint_url": "http://x", "anon": False}},
            {"key": "k", "secret": "s", "client_kwargs": {"endpoint_url": "http://x"}, "anon": False},
        ),
        ("abfs", {"login": "a", "password": "k"}, {"account_name": "a", "account_key": "k"}),
        ("sftp", {"host": "h", "port": 22, "login": "u"}, {"host": "h", "port": 22, "username": "u"}),
        ("gs", {"extra": {"token": "anon"}}, {"token": "anon"}),
    ],
)
def test_the_login_of_a_connection_gets_the_names_of_its_store(
    protocol: str, fields: dict[str, Any], options: dict[str, Any]
) -> None:
    assert options_of(Connection.from_fields("c", fields), protocol) == options


async def test_a_path_is_an_xcom_and_comes_back_as_a_path() -> None:
    with DAG("d", schedule=None) as dag:

        @task(multiple_outputs=True)
        def make() -> dict[str, Any]:
            return {
                "one": ObjectStoragePath("memory://store@bucket/a.txt"),
                "many": [ObjectStoragePath("memory://b/c")],
            }

        @task
        def take(one: Any, many: Any, ti: Any) -> list[str]:
            whole = ti.xcom_pull(task_ids="make")
            assert whole == {"one": one, "many": many}
            return [type(path).__name__ + f" {path} {path.conn_id}" for path in [one, *many]]

        @task
        async def each(path: Any) -> str:
            return f"{path.key} {type(path).__name__}"

        @task
        def paths() -> list[ObjectStoragePath]:
            return [ObjectStoragePath("memory://b/1"), ObjectStoragePath("memory://b/2")]

        made = make()
        take(made["one"], made["many"])  # type: ignore[call-arg]  # the context gives it
        each.expand(path=paths())

    run = await dag.test()

    assert run.state == "success", [one.reason for one in run.tasks]
    assert run.xcoms["take"]["return_value"] == [
        "ObjectStoragePath memory://bucket/a.txt store", "ObjectStoragePath memory://b/c None",
    ]  # fmt: skip
    assert run.xcoms["each"]["return_value"] == ["1 ObjectStoragePath", "2 ObjectStoragePath"]
    assert run.xcoms["make"]["one"] == ObjectStoragePath("memory://store@bucket/a.txt")


def test_what_looks_like_a_path_in_part_is_plain_data() -> None:
    text = json.dumps({PATH: {"path": "memory://b/c"}, "more": 1})

    assert read_xcom(text) == {PATH: {"path": "memory://b/c"}, "more": 1}
    assert TaskXCom.deserialize_value(TaskXCom.serialize_value([ObjectStoragePath("memory://b/c")]))[0].bucket == "b"
