"""`python -m tests.browser.pictures FOLDER`: takes the pictures of the documentation from those of the browser tests.

`make screenshots` does both. The documentation shows no other picture, so that none is old.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import MappingProxyType
from typing import Final

IMAGES: Final = Path(__file__).parents[2] / "docs" / "images"
# By the name in docs/images: the name of the picture that a test takes.
KEPT: Final = MappingProxyType(
    {
        "home": "first-steps-home",
        "dags": "first-steps-dags",
        "graph": "first-steps-graph",
        "grid": "first-steps-grid",
        "run": "first-steps-run",
        "home-phone": "home-dark-390",
        "gantt": "dag-gantt-light-1440",
        "trends": "dag-trends-light-1440",
        "compare": "run-compare-light-1440",
        "log": "first-steps-log",
        "task-instances": "task-instances-light-1440",
        "search": "search-dark",
        "dependencies": "dependencies-graph-light-1440",
        "alerts": "alerts-alerts-light-1440",
        "writing-sales": "writing-sales",
        "writing-params": "writing-params",
        "writing-delivery": "writing-delivery",
        "writing-invoices": "writing-invoices",
    }
)


def main(folder: Path) -> int:
    missing = [name for name in KEPT.values() if not (folder / f"{name}.png").is_file()]
    if missing:
        print(f"not in {folder}: {', '.join(missing)}. Run the browser tests with AIOSCHED_SCREENSHOTS={folder}")
        return 1
    for name, source in KEPT.items():
        shutil.copyfile(folder / f"{source}.png", IMAGES / f"{name}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
