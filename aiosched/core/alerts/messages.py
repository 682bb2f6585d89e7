"""What people read about an alert: one line, and the facts for notifiers. Pure."""

from __future__ import annotations

from typing import Any, Final

_WORDS: Final = {"reminder": "Still open: ", "recovered": "Recovered: ", "test": "Test: "}
_LONGEST_TITLE: Final = 200  # characters


def title_of(message: str | None, text: str) -> str:
    """One line for the subject of a mail or the text of a chat message."""
    line = " ".join(f"{_WORDS.get(message or '', '')}{text}".split())
    return line if len(line) <= _LONGEST_TITLE else f"{line[: _LONGEST_TITLE - 2]} …"


def test_text(rule: str) -> str:
    """The text of a test of a rule."""
    return f"Alerts of the rule {rule} arrive here"


def facts_of(values: dict[str, Any]) -> dict[str, Any]:
    """The facts of a message, as notifiers and their templates get them: its fields and a `title`."""
    return {**values, "title": title_of(values.get("message"), str(values.get("text", "")))}
