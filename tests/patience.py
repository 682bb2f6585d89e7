"""How long tests wait for what must happen: the limit finds what hangs, and judges nothing; no machine is that busy."""

from __future__ import annotations

from typing import Final

PATIENCE: Final = 240.0  # seconds
