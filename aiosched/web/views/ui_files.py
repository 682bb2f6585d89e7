"""The web UI's files: one page for every address outside the API, and the modules that it loads.

The page's `<base>` is the prefix under which the application is mounted, so every address in it is relative.
"""

from __future__ import annotations

import html
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from aiosched.web.auth.access import Role, allow
from aiosched.web.server.problems import Problem, wrong_address
from aiosched.web.views.static_file import answer_with, find_file

FOLDER: Final = Path(__file__).parents[1] / "ui"
_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".woff2": "font/woff2"}

router: APIRouter = APIRouter(include_in_schema=False)


@router.get("/ui/{path:path}")
@allow(Role.PUBLIC)
async def file(request: Request, path: str) -> Response:
    """A module, style sheet or picture of the UI. A request with its ETag is answered by 304."""
    wanted = find_file(FOLDER, path)
    if wanted is None:
        raise Problem(404, "not-found", f"The UI has no file {path!r}.")
    return answer_with(request, wanted, _TYPES.get(wanted.suffix))


@router.get("/{path:path}")
@allow(Role.PUBLIC)
async def page(request: Request, path: str) -> Response:
    """The UI's page for any address; an unknown address of the API is an error."""
    if path.startswith("api/") and (problem := wrong_address(request)) is not None:
        raise problem
    return _page(request)


def login_page(request: Request) -> Response:
    """The UI's page in place of what somebody has opened who is not logged in: after a login it opens it again.

    The status stays 401, so a browser that was to save the answer saves nothing.
    """
    return _page(request, status=401)


def _page(request: Request, *, status: int = 200) -> Response:
    base = html.escape(request.scope.get("root_path", "").rstrip("/") + "/", quote=True)
    text = (FOLDER / "index.html").read_text(encoding="utf-8").replace("{base}", base)
    web = request.app.state.request_client.settings.web
    name = html.escape(web.instance_name, quote=True)
    title = f"{name} · aiosched" if name else "aiosched"
    text = text.replace("{status}", str(status)).replace("{color}", web.instance_color)
    text = text.replace("{title}", title).replace("{instance}", name)
    return HTMLResponse(text, status, headers={"Cache-Control": "no-cache", "Vary": "Accept"})
