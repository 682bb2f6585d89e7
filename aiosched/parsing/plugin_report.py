"""`python -m aiosched.parsing.plugin_report FOLDER [FOLDER …]` loads plugins, and prints what is wrong as JSON.

`doctor` runs it in a process of its own, because it imports code of authors.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace

from aiosched.airflow.finder import install
from aiosched.authoring.base.settings import defaults, use_defaults
from aiosched.authoring.dag.project_finder import use_project
from aiosched.authoring.plugins.loading import load_plugins


def main() -> None:
    """Print {plugins: [name], problems: [{where, text, is_error}]} as the last line."""
    plugins, *modules = sys.argv[1:]
    use_defaults(replace(defaults(), plugins_folder=plugins or None, module_folders=tuple(modules)))
    install(defaults().airflow)  # so that plugins can import what DAG files can
    use_project()
    loaded = load_plugins(defaults().plugins_folder)
    print(json.dumps({"plugins": sorted(loaded.plugins), "problems": [asdict(one) for one in loaded.problems]}))


if __name__ == "__main__":
    main()
