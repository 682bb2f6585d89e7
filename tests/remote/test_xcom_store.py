"""Large values are written once, read when they are needed, and failures say which URL and what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aiosched.config import Settings
from aiosched.core.values.messages import XComPlace, XComValue
from aiosched.errors import ConfigError, RemoteStorageError
from aiosched.remote.folder import RemoteFolder
from aiosched.remote.values import XComRemote, XComStore, remote_xcoms
from tests.remote.stores import FailingFolder

ODD = ["ü \U0001f600 \u2028", "", None, {"a": [1.5, -0.0, 2**60]}, 'quotes " and \\']


def remote(url: str) -> XComRemote:
    return XComRemote(url=url, options=None, remote_from=10, most=10**6)


@pytest.fixture
def xcoms(url: str) -> XComStore:
    return XComStore(remote(url))


def failing(root: Path, pauses: list[float]) -> tuple[XComStore, FailingFolder]:
    """A store of values, and the folder under it; `pauses` gets what it waits for."""
    store, folder = XComStore(remote(f"file://{root}"), pause=pauses.append), FailingFolder(root)
    store._folder = folder
    return store, folder


@pytest.mark.parametrize("value", [ODD, {"key": "ü" * 3_000}, "text" * 1_000, 12345678901])
def test_a_value_is_read_as_it_was_written(xcoms: XComStore, url: str, value: object) -> None:
    text = json.dumps(value, ensure_ascii=False)

    stored = xcoms.write("a/b/one.json", XComValue("k", text))

    assert XComStore(remote(url)).read(XComPlace(stored.path, stored.size)) == text
    assert stored.size == len(text.encode())
    assert text.startswith(json.loads(stored.value))


@pytest.mark.parametrize(("text", "length"), [("[1,[2,3],{}]", 3), ('{"a":[1,2]}', 1), ('"[1,2]"', None), ("5", None)])
def test_the_length_of_a_list_or_an_object_is_known_without_reading_it(
    xcoms: XComStore, text: str, length: int | None
) -> None:
    assert xcoms.write("one", XComValue("k", text)).length == length


def test_a_value_is_read_once(tmp_path: Path) -> None:
    store, folder = failing(tmp_path, [])
    stored = store.write("one", XComValue("k", "[1,2,3]"))
    place = XComPlace(stored.path, stored.size)
    assert store.read(place) == "[1,2,3]"
    folder.is_down = True

    assert store.read(place) == "[1,2,3]"


def test_what_is_kept_is_limited(xcoms: XComStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiosched.remote.values.KEPT", 10)
    places = [XComPlace(*_written(xcoms, f"value{number}", "7" * size)) for number, size in enumerate((4, 5, 6, 20))]

    for place in places:
        assert len(xcoms.read(place)) == place.size

    assert list(xcoms._read) == ["value2"]


def _written(xcoms: XComStore, path: str, text: str) -> tuple[str, int]:
    stored = xcoms.write(path, XComValue("k", text))
    return stored.path, stored.size


def test_a_store_that_fails_for_a_moment_is_asked_again(tmp_path: Path) -> None:
    pauses: list[float] = []
    store, folder = failing(tmp_path, pauses)
    folder.is_down = True

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        folder.is_down = len(pauses) < 3

    store._pause = pause
    stored = store.write("one", XComValue("k", "[1]"))

    assert pauses == [0.5, 1.0, 2.0]
    assert store.read(XComPlace(stored.path, stored.size)) == "[1]"


def test_a_store_that_stays_down_is_an_error_that_names_url_and_value(tmp_path: Path) -> None:
    pauses: list[float] = []
    store, folder = failing(tmp_path, pauses)
    folder.is_down = True

    with pytest.raises(RemoteStorageError, match=rf"The XCom 'k' cannot be written: file://{tmp_path}/one .*no route"):
        store.write("one", XComValue("k", "[1]"))

    assert pauses == [0.5, 1.0, 2.0, 4.0]


def test_a_value_that_is_gone_or_was_changed_says_so(xcoms: XComStore, url: str) -> None:
    with pytest.raises(RemoteStorageError, match=r"/gone does not exist.*xcom\.remote was changed.*clear the task"):
        xcoms.read(XComPlace("gone", 3))
    RemoteFolder(url, setting="xcom.remote").write("cut", b"[1,")
    with pytest.raises(RemoteStorageError, match=r"/cut has 3 bytes instead of 5"):
        xcoms.read(XComPlace("cut", 5))


def test_the_folder_is_opened_when_it_is_needed() -> None:
    store = XComStore(remote("nosuch://bucket"))

    with pytest.raises(ConfigError, match=r"xcom\.remote = nosuch://bucket"):
        store.read(XComPlace("one", 1))


def test_the_settings_say_where_values_go() -> None:
    settings = Settings()
    assert remote_xcoms(settings.xcom) is None

    settings.xcom.remote = "s3://bucket/prefix"
    assert remote_xcoms(settings.xcom) == XComRemote(
        url="s3://bucket/prefix", options=None, remote_from=262_144, most=268_435_456
    )
