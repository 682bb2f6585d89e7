"""A bundle from a zip archive at an address. A version is the hash of the archive.

http, https and file addresses need nothing else; for others fsspec has to be installed (the extra `remote`). The
archive is downloaded again only if its server says that it has changed. A server that sends slowly, or nothing at all,
holds up one thread for each of its bundles, and nobody who waits. A redirect never leaves https.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from aiosched.bundles.cache import BundleCache
from aiosched.bundles.types import BundleLogin, Newest
from aiosched.bundles.zip_files import unpack
from aiosched.errors import BundleError, VersionGone

if TYPE_CHECKING:
    from aiosched.config import BundleSettings

MOST_BYTES: Final = 268_435_456  # of the archive itself
_CHUNK: Final = 262_144
_PATIENCE: Final = 15.0  # seconds without a byte
_NOT_MODIFIED: Final = 304
_OURS: Final = ("http", "https", "file")
_GRACE: Final = 5.0  # seconds after the timeout of the bundle, to say where its time went


T = TypeVar("T")


class _Unchanged(Exception):
    """The server says that the archive has not changed."""


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects from http to http and https, and from https to https: what comes is run."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        before, after = urlsplit(req.full_url).scheme, urlsplit(newurl).scheme
        if after != "https" and (before, after) != ("http", "http"):
            raise BundleError(f"{req.full_url} leads to an address of the kind {after or 'unknown'!r}: not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class ArchiveBundle:
    """Implements the Bundle protocol."""

    def __init__(self, settings: BundleSettings, cache: BundleCache) -> None:
        assert settings.url is not None
        self.name: str = settings.name
        self.cache: BundleCache = cache
        self.interval: float = settings.interval
        self.connection: str | None = settings.connection
        self._url, self._subfolder, self._timeout = settings.url, settings.subfolder, settings.timeout
        self._busy: threading.Thread | None = None  # reads the archive, or hangs

    async def newest(self, known: Newest | None, login: BundleLogin | None) -> Newest:
        """Download the archive if it has changed."""
        return await self._within_limit(lambda: self._newest(known, login))

    async def probe(self, login: BundleLogin | None) -> str:
        """Read the beginning of the archive."""
        return await self._within_limit(lambda: self._probe(login))

    async def _within_limit(self, work: Callable[[], T]) -> T:
        """The result of `work`, in a thread, which cannot be ended. Raises BundleError if it takes too long."""
        slow = f"{self._url} took longer than {self._timeout:g} s (timeout of the bundle)"
        deadline = time.monotonic() + self._timeout + _GRACE
        if (busy := self._busy) is not None and busy.is_alive():
            await asyncio.to_thread(busy.join, min(_GRACE, self._timeout))
            if busy.is_alive():
                raise BundleError(f"{slow}, and an earlier download still waits for it")
        future: Future[T] = Future()

        def run() -> None:
            try:
                found = work()
            except BaseException as error:
                _settle(future.set_exception, error)
            else:
                _settle(future.set_result, found)

        self._busy = threading.Thread(target=run, name=f"aiosched bundle {self.name}", daemon=True)
        self._busy.start()
        try:
            async with asyncio.timeout(max(deadline - time.monotonic(), 0.0)):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise BundleError(slow) from None

    def _probe(self, login: BundleLogin | None) -> str:
        with self._reading(), self._open(None, login) as source:
            if source.read(2) != b"PK":
                raise BundleError(f"{self._url} is no zip archive")
        return f"{self._url} can be read"

    async def fetch(self, version: str, login: BundleLogin | None) -> None:
        """Download the archive; it may be another version now."""
        found = await self._within_limit(lambda: self._newest(None, login))
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
        return urllib.request.build_opener(_Redirects).open(request, timeout=_PATIENCE)

    def _copy(self, source: IO[bytes], file: IO[bytes], deadline: float) -> str:
        """Copy the archive; returns its version."""
        digest, size = hashlib.sha256(), 0
        read = getattr(source, "read1", source.read)  # what has come, however little
        while chunk := read(_CHUNK):
            size += len(chunk)
            if size > MOST_BYTES:
                raise BundleError(f"{self._url} has more than {MOST_BYTES:,} bytes")
            if time.monotonic() > deadline:
                raise BundleError(f"{self._url} took longer than {self._timeout:g} s (timeout of the bundle)")
            digest.update(chunk)
            file.write(chunk)
        return digest.hexdigest()[:40]


def _settle(settle: Callable[[Any], None], found: Any) -> None:
    with contextlib.suppress(InvalidStateError):  # nobody waits any more
        settle(found)


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
