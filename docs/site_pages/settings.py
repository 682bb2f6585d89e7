"""The directives `settings-table` and `airflow-settings-table`: our settings, and what became of Airflow's."""

from __future__ import annotations

from itertools import groupby

from aiosched.config import setting_fields
from aiosched.config.sources import variable_of
from aiosched.migration.cfg_table import OPTIONS, SECTIONS, OurSetting
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


class AirflowSettingsTable(Generated):
    """A table of Airflow's options, and one of its other sections."""

    def markdown(self) -> str:
        """What each is called here, or why there is none."""
        head = ["| Airflow | aiosched |", "|---|---|"]
        options = [
            f"| `[{section}] {option}` | {_here(entry)} |" for (section, option), entry in sorted(OPTIONS.items())
        ]
        sections = [f"| `[{section}]` | {cell(reason)} |" for section, reason in sorted(SECTIONS.items())]
        return "\n".join([*head, *options, "", "Other sections as a whole:", "", *head, *sections])


def _here(entry: OurSetting | str) -> str:
    if isinstance(entry, str):
        return cell(entry)
    return f"`{entry.key}`" + (f" ({cell(entry.note)})" if entry.note else "")


def _default(value: object) -> str:
    if value is None or value == "":
        return "unset"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"
