"""A build hook of hatchling: a wheel brings the documentation site along if `make docs` has built it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WheelWithDocs(BuildHookInterface):  # type: ignore[type-arg]
    """Adds `build/docs` to the package, where the web server looks for it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the folder, unless it is missing or the package is installed in editable mode."""
        built = Path(self.root) / "build" / "docs"
        if version == "standard" and (built / "index.html").is_file():
            build_data["force_include"][str(built)] = "aiosched/web/documentation"
