"""`python -m aiosched.parsing.plugin_report [FOLDER]` loads the plugins and prints what is wrong with them as JSON.

`doctor` runs it in a process of its own, because it imports code of authors.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from aiosched.airflow.finder import install
from aiosched.authoring.base.settings import defaults
from aiosched.authoring.plugins.loading import load_plugins


def main() -> None:
    """Print {plugins: [name], problems: [{where, text, is_error}]} as the last line."""
    install(defaults().airflow)  # so that plugins can import what DAG files can
    loaded = load_plugins(sys.argv[1] if len(sys.argv) > 1 else None)
    print(json.dumps({"plugins": sorted(loaded.plugins), "problems": [asdict(one) for one in loaded.problems]}))


if __name__ == "__main__":
    main()
