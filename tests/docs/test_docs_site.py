"""The documentation site builds without a warning, and each of its links leads to a page and an anchor that exist."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import aiosched

ROOT = Path(__file__).parents[2]


@dataclass(slots=True)
class Page(HTMLParser):
    """What a page links to and loads, and the anchors that it has."""

    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    inline: list[str] = field(default_factory=list)  # what the web server's Content-Security-Policy forbids

    def __post_init__(self) -> None:
        HTMLParser.__init__(self)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the attributes that matter."""
        found = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := found.get(name))}
        if tag == "a" and (href := found.get("href")):
            self.links.append(href)
        if tag in ("link", "script", "img", "source", "iframe") and (url := found.get("src") or found.get("href")):
            self.loads.append(url)
        if (tag == "script" and "src" not in found) or tag == "style" or "style" in found:
            self.inline.append(f"<{tag}>")
        self.inline += [name for name in found if name.startswith("on")]


def read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def test_the_site_builds_without_a_warning_and_each_link_resolves(tmp_path: Path) -> None:
    site = tmp_path / "site"
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going"]
    where = ["--doctree-dir", str(tmp_path / "doctrees"), str(ROOT / "docs"), str(site)]
    done = subprocess.run([*command, *where], capture_output=True, text=True, env=os.environ | {"LC_ALL": "C.UTF-8"})
    assert done.returncode == 0, done.stderr[-5000:]

    pages = {path: read(path) for path in site.rglob("*.html") if "_downloads" not in path.parts}
    broken = [
        f"{path.relative_to(site)}: {link}"
        for path, page in pages.items()
        for link in page.links + page.loads
        if not resolves(link, path, pages)
    ]

    assert len(pages) > 60
    assert broken == []
    assert {url for page in pages.values() for url in page.loads if urlsplit(url).netloc} == set()
    assert {str(path): page.inline for path, page in pages.items() if page.inline} == {}
    assert f"aiosched {aiosched.__version__}" in (site / "index.html").read_text(encoding="utf-8")
    for name in ("command-line", "settings", "rest-api", "python-api"):
        assert len(pages[site / f"{name}.html"].anchors) > 10, name
    assert "aiosched.Scheduler.trigger" in pages[site / "python-api.html"].anchors


def resolves(link: str, path: Path, pages: dict[Path, Page]) -> bool:
    """Whether a link of the page at `path` leads somewhere; other sites are asked by `make docs-links` only."""
    parts = urlsplit(link)
    if parts.scheme in ("https", "mailto", "data"):
        return True
    if parts.scheme == "http":  # an example, never a site
        return parts.hostname in ("127.0.0.1", "localhost")
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_file():
        return False
    page = pages.get(target)
    return not parts.fragment or page is None or unquote(parts.fragment) in page.anchors
