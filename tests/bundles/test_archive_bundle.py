"""An archive bundle follows the content at its address, and refuses archives that could do harm."""

from __future__ import annotations

import asyncio
import io
import stat
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from aiosched.bundles import zip_files
from aiosched.bundles.archive import ArchiveBundle
from aiosched.bundles.cache import BundleCache
from aiosched.bundles.types import BundleLogin, Newest
from aiosched.config import BundleSettings
from aiosched.errors import BundleError, VersionGone


def packed(files: dict[str, str | bytes], **entry: Any) -> bytes:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            for field, value in entry.items():
                setattr(info, field, value)
            archive.writestr(info, content)
    return whole.getvalue()


def bundle(tmp_path: Path, url: str, **more: Any) -> ArchiveBundle:
    settings = BundleSettings(name="team", kind="archive", url=url, **more)
    return ArchiveBundle(settings, BundleCache(tmp_path / "cache"))


def newest(one: ArchiveBundle, known: Newest | None = None, login: BundleLogin | None = None) -> Newest:
    return asyncio.run(one.newest(known, login))


def put(tmp_path: Path, content: bytes) -> str:
    (tmp_path / "dags.zip").write_bytes(content)
    return f"file://{tmp_path}/dags.zip"


def test_each_content_of_the_archive_is_a_version(tmp_path: Path) -> None:
    one = bundle(tmp_path, put(tmp_path, packed({"a.py": "1", "deep/b.py": "2"})))
    first = newest(one)
    put(tmp_path, packed({"a.py": "3"}))

    second = newest(one, first)

    assert (one.cache.path(first.version) / "deep" / "b.py").read_text() == "2"
    assert (one.cache.path(second.version) / "a.py").read_text() == "3"
    assert newest(one, second).version == second.version


def test_only_a_subfolder_can_be_used(tmp_path: Path) -> None:
    url = put(tmp_path, packed({"repo-1/dags/a.py": "1", "repo-1/readme": "2"}))
    one = bundle(tmp_path, url, subfolder="repo-1/dags")

    path = one.cache.path(newest(one).version)

    assert [p.name for p in path.iterdir()] == ["a.py"]


def test_a_version_that_was_replaced_is_gone(tmp_path: Path) -> None:
    one = bundle(tmp_path, put(tmp_path, packed({"a.py": "1"})))

    with pytest.raises(VersionGone, match="is another version now"):
        asyncio.run(one.fetch("0" * 40, None))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"no zip", "not a usable zip archive"),
        (packed({"../evil.py": "1"}), "leads outside"),
        (packed({"/evil.py": "1"}), "leads outside"),
        (packed({"a/../../evil.py": "1"}), "leads outside"),
        (packed({"a\\..\\evil.py": "1"}), "leads outside"),
        (packed({"link": "/etc/passwd"}, external_attr=(stat.S_IFLNK | 0o777) << 16), "link or a special file"),
        (packed({"a": "1", "a/b": "2"}), "two entries for one path"),
        (packed({"a.py": "1"})[:-30], "not a usable zip archive"),
    ],
)
def test_a_harmful_or_broken_archive_is_refused_and_leaves_nothing(tmp_path: Path, content: bytes, text: str) -> None:
    with pytest.raises(BundleError, match=text):
        newest(bundle(tmp_path, put(tmp_path, content)))

    assert list((tmp_path / "cache").iterdir()) == []
    assert not (tmp_path / "evil.py").exists()


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zip_files, "MOST_BYTES", 1_000_000)

    with pytest.raises(BundleError, match="10,000,000 bytes when unpacked, and the limit is 1,000,000"):
        newest(bundle(tmp_path, put(tmp_path, packed({"bomb.py": b"\0" * 10_000_000}))))


def test_an_archive_with_too_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zip_files, "MOST_FILES", 3)

    with pytest.raises(BundleError, match="4 files, and the limit is 3"):
        newest(bundle(tmp_path, put(tmp_path, packed({f"{n}.py": "" for n in range(4)}))))


class Server:
    """Serves one archive with an ETag, and notes the requests."""

    def __init__(self) -> None:
        self.content, self.requests = packed({"a.py": "1"}), list[dict[str, str]]()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:
                pass

            def do_GET(self) -> None:
                outer.requests.append(dict(self.headers))
                if self.path == "/moved":
                    self.send_response(302)
                    self.send_header("Location", f"http://localhost:{outer.port}/dags.zip")
                    self.end_headers()
                    return
                etag = f'"{hash(outer.content)}"'
                same = self.headers.get("If-None-Match") == etag
                self.send_response(304 if same else 200)
                self.send_header("ETag", etag)
                self.end_headers()
                if not same:
                    self.wfile.write(outer.content)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]


@pytest.fixture
def server() -> Iterator[Server]:
    one = Server()
    thread = threading.Thread(target=one.server.serve_forever)
    thread.start()
    yield one
    one.server.shutdown()
    thread.join()
    one.server.server_close()


def test_an_archive_is_downloaded_again_only_if_it_has_changed(tmp_path: Path, server: Server) -> None:
    one = bundle(tmp_path, f"http://127.0.0.1:{server.port}/dags.zip")
    first = newest(one)

    assert newest(one, first) == first
    assert server.requests[-1]["If-None-Match"] == first.mark.removeprefix("etag ")

    server.content = packed({"a.py": "2"})
    second = newest(one, first)
    assert (one.cache.path(second.version) / "a.py").read_text() == "2"


def test_a_login_is_not_passed_on_to_another_host(tmp_path: Path, server: Server) -> None:
    newest(bundle(tmp_path, f"http://127.0.0.1:{server.port}/moved"), login=BundleLogin("ann", "word"))

    assert ["Authorization" in request for request in server.requests] == [True, False]


def test_a_server_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"http://127.0.0.1:9/dags.zip cannot be read: .*refused"):
        newest(bundle(tmp_path, "http://127.0.0.1:9/dags.zip"))


def test_an_unknown_kind_of_address_is_an_error_that_names_the_address(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="nosuch"):
        newest(bundle(tmp_path, "nosuch://somewhere/dags.zip"))
