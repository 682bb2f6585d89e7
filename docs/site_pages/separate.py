"""Scripts and styles out of the pages, into files: the web server's Content-Security-Policy allows only files.

The theme writes a few short ones into each page. Each different one becomes a file, at the same place of the page, so
that everything happens in the same order. An attribute `style` becomes a rule in a file of rules. Attributes with
scripts cannot be moved: the build fails rather than make a page that does not do what it shows.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Final

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

_SCRIPT: Final = re.compile(r"<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", re.DOTALL)
_STYLE: Final = re.compile(r"<style[^>]*>(.*?)</style>", re.DOTALL)
_ATTRIBUTE: Final = re.compile(r'(<[a-z][^<>]*?\s)style="([^"]*)"', re.IGNORECASE)
_HANDLER: Final = re.compile(r'<[a-z][^<>]*\s(on[a-z]+)="', re.IGNORECASE)


def separate(app: Sphinx, failure: Exception | None) -> None:
    """Move what stands inside pages into files, once they are all written."""
    if failure is not None or app.builder.format != "html":
        return
    out = Path(app.outdir)
    for page in sorted(out.rglob("*.html")):
        if "_downloads" in page.parts:
            continue
        text = page.read_text(encoding="utf-8")
        if found := _HANDLER.search(text):
            raise ExtensionError(f"{page.relative_to(out)}: the web server's policy forbids {found[1]}=… in {found[0]}")
        page.write_text(_moved(text, out, os.path.relpath(out, page.parent)), encoding="utf-8")


def _moved(text: str, out: Path, root: str) -> str:
    rules: dict[str, str] = {}

    def script(match: re.Match[str]) -> str:
        return f'<script src="{root}/{_file(out, match[1], "js")}"></script>' if match[1].strip() else ""

    def style(match: re.Match[str]) -> str:
        return f'<link rel="stylesheet" href="{root}/{_file(out, match[1], "css")}">'

    def attribute(match: re.Match[str]) -> str:
        name = _digest(match[2])
        rules[name] = f'[data-style="{name}"] {{ {match[2]} }}'
        return f'{match[1]}data-style="{name}"'

    text = _ATTRIBUTE.sub(attribute, _STYLE.sub(style, _SCRIPT.sub(script, text)))
    if rules:
        sheet = _file(out, "\n".join(rules[name] for name in sorted(rules)), "css")
        text = text.replace("</head>", f'<link rel="stylesheet" href="{root}/{sheet}"></head>', 1)
    return text


def _file(out: Path, content: str, kind: str) -> str:
    name = f"_static/page-{_digest(content)}.{kind}"
    (out / name).write_text(content, encoding="utf-8")
    return name


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()[:12]
