"""The documentation site, under `/docs`: the files that `make docs` has built, or a page that says how to build them.

The site lies in the package where a wheel has brought it, else in `build/docs` of the repository. It holds nothing of
this installation, so that everybody may read it who may load the UI's own files.
"""

from __future__ import annotations

import html
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from aiosched.version import __version__
from aiosched.web.auth.access import Role, allow
from aiosched.web.server.problems import Problem
from aiosched.web.views.static_file import answer_with, find_file

PLACES: Final = (Path(__file__).parents[1] / "documentation", Path(__file__).parents[3] / "build" / "docs")
_TYPES: Final = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
_NOT_BUILT: Final = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Documentation of aiosched {version}</title></head>
<body>
<h1>Documentation of aiosched {version}</h1>
<p>The documentation site is not part of this installation. In a clone of the repository this command builds it:</p>
<pre>make docs</pre>
<p>The same pages are in the folder <code>docs</code> of the repository.</p>
</body>
</html>
"""

router: APIRouter = APIRouter(include_in_schema=False)


def site() -> Path | None:
    """The folder of the built site."""
    return next((place for place in PLACES if (place / "index.html").is_file()), None)


@router.get("/docs")
@allow(Role.PUBLIC)
async def address(request: Request) -> Response:
    """To the address below which the links of the site work."""
    return RedirectResponse(request.scope.get("root_path", "").rstrip("/") + "/docs/", status_code=308)


@router.get("/docs/{path:path}")
@allow(Role.PUBLIC)
async def page(request: Request, path: str) -> Response:
    """A file of the site. A request with its ETag is answered by 304."""
    folder = site()
    if folder is None:
        text = _NOT_BUILT.format(version=html.escape(__version__))
        return HTMLResponse(text, status_code=200 if path in ("", "index.html") else 404)
    wanted = find_file(folder, path or "index.html")
    if wanted is None:
        raise Problem(404, "not-found", f"The documentation has no page {path!r}; /docs/ lists all pages.")
    return answer_with(request, wanted, "text/plain" if "_downloads" in wanted.parts else _TYPES.get(wanted.suffix))
