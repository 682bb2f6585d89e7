"""What people read about an alert: one line, and the facts for notifiers. Pure."""

from __future__ import annotations

from typing import Any, Final

_WORDS: Final = {"reminder": "Still open: ", "recovered": "Recovered: ", "test": "Test: "}
_LONGEST_TITLE: Final = 200  # characters
_LONGEST_ERROR: Final = 500


def title_of(message: str | None, text: str) -> str:
    """One line for the subject of a mail or the text of a chat message."""
    line = " ".join(f"{_WORDS.get(message or '', '')}{text}".split())
    return line if len(line) <= _LONGEST_TITLE else f"{line[: _LONGEST_TITLE - 2]} …"


def failure_text(dag_id: str, run_id: str, task: str, error: str | None, *, failed: int) -> str:
    """The text about a failed run: one of its `failed` task instances, and the first line of its error."""
    line = next((line.strip() for line in (error or "").splitlines() if line.strip()), "failed")[:_LONGEST_ERROR]
    more = "" if failed < 2 else f" ({failed} task instances failed)"
    return f"Run {run_id} of {dag_id} failed in {task}: {line}{more}"


def test_text(rule: str) -> str:
    """The text of a test of a rule."""
    return f"Alerts of the rule {rule} arrive here"


def facts_of(values: dict[str, Any]) -> dict[str, Any]:
    """The facts of a message, as notifiers and their templates get them: its fields and a `title`."""
    return {**values, "title": title_of(values.get("message"), str(values.get("text", "")))}
