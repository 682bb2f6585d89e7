"""The version of this aiosched."""

from __future__ import annotations

from typing import Final

__version__: Final = "0.2.0.dev0"
