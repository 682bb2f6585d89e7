"""The directive `settings-table`: every setting with its default, from the settings classes."""

from __future__ import annotations

from itertools import groupby

from aiosched.config import setting_fields
from aiosched.config.sources import variable_of
from site_pages.generated import Generated, cell


class SettingsTable(Generated):
    """A table for each section."""

    def markdown(self) -> str:
        """Tables of keys, defaults and descriptions."""
        lines: list[str] = []
        for section, fields in groupby(setting_fields(), key=lambda field: field.section):
            lines += [f"## {section}", "", "| setting | default | |", "|---|---|---|"]
            lines += [
                f"| `{field.key}` | {_default(field.info.default)} | {cell(field.info.description or '')} |"
                for field in fields
            ]
            lines += ["", f"In the environment: `{variable_of(section + '.')}…`", ""]
        return "\n".join(lines)


def _default(value: object) -> str:
    if value is None or value == "":
        return "unset"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"
