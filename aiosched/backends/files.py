"""Secrets as files, as Docker and Kubernetes mount them: a folder for connections, one for variables.

The name of a file is the name of the secret. Files are read again each time, so a changed one counts at once. A link is
followed only inside of its folder, which is how Kubernetes replaces all files of a volume at once (`..data`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

from aiosched.backends.backend import Kind
from aiosched.errors import ConfigError, SecretBackendError

_MOST_BYTES: Final = 2**20


class FilesBackend:
    """Reads `connections` and `variables`, two folders; one of them may be missing."""

    always_ask: Literal[True] = True

    def __init__(self, *, connections: str | None = None, variables: str | None = None) -> None:
        if connections is None and variables is None:
            raise ConfigError(
                "secrets.backends: files needs a folder: connections = '/run/secrets/connections', or variables."
            )
        self._folders = {"connection": connections, "variable": variables}

    def get(self, kind: Kind, name: str) -> str | None:
        """See SecretBackend. Without the line feed at the end that editors write."""
        folder = self._folders[kind]
        if folder is None or any(part.startswith(".") for part in name.split("/")):
            return None
        try:
            inside = Path(folder).resolve(strict=True)
            path = Path(folder, name).resolve(strict=True)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not path.is_relative_to(inside):
            raise SecretBackendError(f"{Path(folder, name)} leads out of its folder. Put the secret itself there.")
        return _text(path)

    def names(self, kind: Kind) -> Iterator[str]:
        """The names of all files, also in folders."""
        folder = self._folders[kind]
        if folder is None:
            return
        for found in sorted(Path(folder).rglob("*")):
            name = found.relative_to(folder)
            if not any(part.startswith(".") for part in name.parts) and found.is_file():
                yield name.as_posix()


def _text(path: Path) -> str | None:
    """The text of a regular file, None for a folder; the path has no links any more."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
        if kind == stat.S_IFDIR:
            return None
        if kind != stat.S_IFREG:
            raise SecretBackendError(f"{path} is not a regular file.")
        data = _read(descriptor)
    finally:
        os.close(descriptor)
    if len(data) > _MOST_BYTES:
        raise SecretBackendError(f"{path} has more than {_MOST_BYTES:,} bytes, which no secret has.")
    try:
        return data.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise SecretBackendError(f"{path} is not text in UTF-8.") from None


def _read(descriptor: int) -> bytes:
    """The content, or one byte more than the most."""
    data = b""
    while len(data) <= _MOST_BYTES and (part := os.read(descriptor, _MOST_BYTES + 1 - len(data))):
        data += part
    return data
