"""Fixtures for remote storage: real stores that need no server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

import pytest

from aiosched.remote.folder import RemoteFolder


@pytest.fixture(params=["file", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A folder in each kind of store: one that replaces files at once, and one that does not."""
    if request.param == "file":
        yield f"file://{tmp_path}/store"
    else:
        import fsspec

        yield (url := f"memory://{token_hex(8)}")
        fsspec.filesystem("memory").rm(url, recursive=True) if fsspec.filesystem("memory").exists(url) else None


@pytest.fixture
def store(url: str) -> RemoteFolder:
    return RemoteFolder(url, setting="logs.remote")
