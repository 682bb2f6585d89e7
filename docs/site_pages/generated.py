"""What the directives share: a directive whose content is Markdown that a function writes."""

from __future__ import annotations

from docutils import nodes
from sphinx.util.docutils import SphinxDirective


class Generated(SphinxDirective):
    """A directive without arguments; `markdown` says what stands in its place. Headings begin at level 2."""

    def markdown(self) -> str:
        """The text of the page."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        """The nodes of the text."""
        return self.parse_text_to_nodes(self.markdown(), allow_section_headings=True)


def cell(text: str) -> str:
    """A text inside a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("[[", "\\[\\[")
