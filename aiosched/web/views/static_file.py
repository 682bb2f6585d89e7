"""Files of a folder for a browser: found by the path in an address, and answered with an ETag."""

from __future__ import annotations

import mimetypes
from pathlib import Path
from typing import Final

from fastapi import Request
from fastapi.responses import FileResponse, Response

_KINDS: Final = {".woff2": "font/woff2"}  # not every system's table has it


def find_file(folder: Path, path: str) -> Path | None:
    """The file below `folder`; None for anything else, also for a path that no system can have."""
    try:
        wanted = (folder / path).resolve()
        return wanted if wanted.is_relative_to(folder.resolve()) and wanted.is_file() else None
    except (OSError, ValueError):  # too long, or with a null byte
        return None


def answer_with(request: Request, file: Path, kind: str | None = None) -> Response:
    """The file, as the media type `kind` or that of its suffix; 304 for a request with its ETag."""
    facts = file.stat()
    etag = f'"{facts.st_mtime_ns:x}-{facts.st_size:x}"'
    headers = {"ETag": etag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    kind = kind or _KINDS.get(file.suffix) or mimetypes.guess_type(file.name)[0] or "text/plain"
    return FileResponse(file, media_type=kind, headers=headers)
