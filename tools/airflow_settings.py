"""`python -m tools.airflow_settings WHEEL…`: writes the defaults of Airflow's settings, for `conf.get` in DAG files.

The wheels are those of `apache-airflow` and `apache-airflow-core`, oldest first. Where two generations disagree, the
newer one wins. Options without a default are left out, and those that hold a secret or the address of a service.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from aiosched.airflow.tables import FOLDER, SETTING_COLUMNS, SETTINGS

_FILE = "airflow/config_templates/config.yml"
_OF_THE_INSTALLATION = (
    "sql_alchemy_conn", "fernet_key", "secret_key", "broker_url", "result_backend", "bind_password", "password",
)  # fmt: skip


def rows(wheels: Iterable[Path]) -> list[tuple[str, str, str]]:
    """Section, option and default, sorted."""
    found: dict[tuple[str, str], str] = {}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            found.update(_defaults(yaml.safe_load(archive.read(_FILE))))
    return sorted((section, option, default) for (section, option), default in found.items())


def _defaults(document: Any) -> Iterator[tuple[tuple[str, str], str]]:
    """Of a file: a list of sections in 1.10 and 2.0, a mapping since."""
    sections = document.items() if isinstance(document, dict) else ((one["name"], one) for one in document)
    for section, declared in sections:
        options = declared["options"]
        named = options.items() if isinstance(options, dict) else ((one["name"], one) for one in options)
        for option, what in named:
            default = what.get("default")
            if default is not None and not what.get("sensitive") and option not in _OF_THE_INSTALLATION:
                text = str(default).replace("{{{{", "{{").replace("}}}}", "}}").replace("%%", "%")
                yield (section.lower(), option.lower()), " ".join(text.split())


if __name__ == "__main__":
    table = [SETTING_COLUMNS, *rows(map(Path, sys.argv[1:]))]
    (FOLDER / SETTINGS).write_text("".join("\t".join(row) + "\n" for row in table), encoding="utf-8")
    print(f"{len(table) - 1} settings")
