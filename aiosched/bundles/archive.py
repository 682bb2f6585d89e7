"""A bundle from a zip archive at an address. A version is the hash of the archive.

http, https and file addresses need nothing else; for others fsspec has to be installed (the extra `remote`). The
archive is downloaded again only if its server says that it has changed.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from aiosched.bundles.cache import BundleCache
from aiosched.bundles.kinds import BundleLogin, Newest
from aiosched.bundles.unpacking import unpack
from aiosched.errors import BundleError, VersionGone

if TYPE_CHECKING:
    from aiosched.config import BundleSettings

MOST_BYTES: Final = 268_435_456  # of the archive itself
_CHUNK: Final = 262_144
_PATIENCE: Final = 15.0  # seconds without a byte
_NOT_MODIFIED: Final = 304
_OURS: Final = ("http", "https", "file")


class _Unchanged(Exception):
    """The server says that the archive has not changed."""


class ArchiveBundle:
    """Implements the Bundle protocol."""

    def __init__(self, settings: BundleSettings, cache: BundleCache) -> None:
        assert settings.url is not None
        self.name, self.cache = settings.name, cache
        self.interval, self.connection = settings.interval, settings.connection
        self._url, self._subfolder, self._timeout = settings.url, settings.subfolder, settings.timeout

    async def newest(self, known: Newest | None, login: BundleLogin | None) -> Newest:
        """Download the archive if it has changed."""
        return await asyncio.to_thread(self._newest, known, login)

    async def probe(self, login: BundleLogin | None) -> str:
        """Read the beginning of the archive."""
        return await asyncio.to_thread(self._probe, login)

    def _probe(self, login: BundleLogin | None) -> str:
        with self._reading(), self._open(None, login) as source:
            if source.read(2) != b"PK":
                raise BundleError(f"{self._url} is no zip archive")
        return f"{self._url} can be read"

    async def fetch(self, version: str, login: BundleLogin | None) -> None:
        """Download the archive; it may be another version now."""
        found = await asyncio.to_thread(self._newest, None, login)
        if found.version != version:
            raise VersionGone(self.name, version, f"{self._url} is another version now")

    def _newest(self, known: Newest | None, login: BundleLogin | None) -> Newest:
        deadline = time.monotonic() + self._timeout
        with self.cache.scratch() as scratch:
            path = scratch / "archive.zip"
            try:
                with self._reading(), self._open(known, login) as source, path.open("wb") as file:
                    version = self._copy(source, file, deadline)
                    mark = _mark(source)
            except _Unchanged:
                assert known is not None  # only then the server was asked for changes
                return known
            if known is None or known.version != version:
                self.cache.make(version, lambda folder: unpack(path, folder, subfolder=self._subfolder))
        return Newest(version, mark)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Raise BundleError for whatever goes wrong while the archive is read."""
        try:
            yield
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == _NOT_MODIFIED:
                raise _Unchanged from None
            raise BundleError(f"{self._url} answered {error.code} {error.reason}") from None
        except BundleError:
            raise
        except Exception as error:  # of the network, or whatever fsspec raises
            reason = getattr(error, "reason", None) or error
            raise BundleError(f"{self._url} cannot be read: {reason}") from None

    def _open(self, known: Newest | None, login: BundleLogin | None) -> Any:
        scheme = urlsplit(self._url).scheme
        if scheme not in _OURS:
            return _open_by_fsspec(self._url, scheme)
        request = urllib.request.Request(self._url, headers={"User-Agent": "aiosched"})  # noqa: S310 one of _OURS
        if login is not None and scheme != "file":
            pair = base64.b64encode(f"{login.user}:{login.password}".encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {pair}")  # to no other host
        if known is not None and known.mark:
            kind, _, value = known.mark.partition(" ")
            request.add_header("If-None-Match" if kind == "etag" else "If-Modified-Since", value)
        return urllib.request.urlopen(request, timeout=_PATIENCE)  # noqa: S310

    def _copy(self, source: IO[bytes], file: IO[bytes], deadline: float) -> str:
        """Copy the archive; returns its version."""
        digest, size = hashlib.sha256(), 0
        while chunk := source.read(_CHUNK):
            size += len(chunk)
            if size > MOST_BYTES:
                raise BundleError(f"{self._url} has more than {MOST_BYTES:,} bytes")
            if time.monotonic() > deadline:
                raise BundleError(f"{self._url} took longer than {self._timeout:g} s (timeout of the bundle)")
            digest.update(chunk)
            file.write(chunk)
        return digest.hexdigest()[:40]


def _mark(source: Any) -> str:
    """What the server says about this content, to ask for a change later."""
    headers = getattr(source, "headers", None)
    if headers is None or getattr(source, "status", None) is None:  # a file
        return ""
    if etag := headers.get("ETag"):
        return f"etag {etag}"
    return f"date {headers['Last-Modified']}" if headers.get("Last-Modified") else ""


def _open_by_fsspec(url: str, scheme: str) -> Any:
    try:
        import fsspec
    except ImportError:
        raise BundleError(
            f"addresses of the kind {scheme or url!r} need fsspec: pip install 'aiosched[remote]'"
        ) from None
    return fsspec.open(url, "rb").open()
