"""Pages at the root of the repository become pages of the site, and links out of `docs` stay useful there.

`docs/overview.md` and its like only name a page at the root; the site shows that page in their place. A link to a file
of the repository becomes a download of that file, and a link to a folder its plain name: the site works without the
repository and without a network.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from sphinx.application import Sphinx

AT_THE_ROOT: Final = {
    "overview": "README.md",
    "changelog": "CHANGELOG.md",
    "contributing": "CONTRIBUTING.md",
    "reporting-vulnerabilities": "SECURITY.md",
}
_LINK: Final = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s]+)\)")
_PICTURE: Final = re.compile(r"(!\[[^\]]*\])\(([^)\s]+)\)")
_ANCHOR: Final = re.compile(r'^<a id="([\w.-]+)"></a>$', re.MULTILINE)
_FENCE: Final = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)


def rewrite(app: Sphinx, docname: str, content: list[str]) -> None:
    """Replace the text of a page before it is parsed."""
    docs = Path(app.srcdir)
    text, folder = content[0], (docs / docname).parent
    if docname in AT_THE_ROOT:
        text, folder = (docs.parent / AT_THE_ROOT[docname]).read_text(encoding="utf-8"), docs.parent
    in_a_list = docname.startswith("decisions/0")  # their README is the list of them
    front = "---\norphan: true\n---\n" if in_a_list else ""
    text = _ANCHOR.sub(r"(\1)=", text)  # as MyST writes an anchor of the heading below
    content[0] = front + with_links(text, folder, docs / Path(docname).parent, docs)


def with_links(text: str, written_in: Path, shown_in: Path, docs: Path) -> str:
    """The Markdown `text` of a page in the folder `written_in`, with links as the site needs them in `shown_in`."""

    def link(match: re.Match[str]) -> str:
        words, target = match.groups()
        address, _, anchor = target.partition("#")
        if not address or "://" in target or target.startswith("mailto:"):
            return match[0]
        path = Path(os.path.normpath(written_in / address))
        if docs in path.parents and path.suffix == ".md":
            return f"[{words}]({_address(path, shown_in, anchor)})"
        for page, at_the_root in AT_THE_ROOT.items():
            if path == docs.parent / at_the_root:
                return f"[{words}]({_address(docs / f'{page}.md', shown_in, anchor)})"
        if path.is_file():
            return f"[{words}](<path:{_relative(path, shown_in)}>)"
        if not path.exists():
            return match[0]  # Sphinx says what is wrong
        name = str(path.relative_to(docs.parent))
        return words if name in words else f"{words} (`{name}`)"

    def picture(match: re.Match[str]) -> str:
        path = Path(os.path.normpath(written_in / match[2]))
        return f"{match[1]}({_relative(path, shown_in)})"

    parts: list[str] = []
    end = 0
    for fence in _FENCE.finditer(text):
        parts += [_PICTURE.sub(picture, _LINK.sub(link, text[end : fence.start()])), fence[0]]
        end = fence.end()
    parts.append(_PICTURE.sub(picture, _LINK.sub(link, text[end:])))
    return "".join(parts)


def _relative(path: Path, folder: Path) -> str:
    return os.path.relpath(path, folder)


def _address(path: Path, folder: Path, anchor: str) -> str:
    return _relative(path, folder) + (f"#{anchor}" if anchor else "")
