"""Every picture of `docs/images` is in the gallery or in its guide, and each picture of a page exists."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")


def test_every_picture_is_shown_with_words_for_those_who_do_not_see_it() -> None:
    pages = (DOCS / "images" / "gallery.md", DOCS / "writing-dags.md")
    shown = [found for page in pages for found in PICTURE.findall(page.read_text(encoding="utf-8"))]

    assert sorted(Path(name).name for _, name in shown) == sorted(path.name for path in (DOCS / "images").glob("*.png"))
    assert [name for words, name in shown if len(words) < 20] == []


def test_every_picture_of_a_page_exists() -> None:
    missing = [
        f"{page.relative_to(DOCS)}: {target}"
        for page in DOCS.rglob("*.md")
        for _, target in PICTURE.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / target).is_file()
    ]

    assert missing == []
