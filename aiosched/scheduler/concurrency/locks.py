"""What synchronises the loops of a session."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field


@dataclass(slots=True)
class Locks:
    """One lock and three events of a session."""

    ownership: asyncio.Lock = field(default_factory=asyncio.Lock)  # held to create runs, and to load or give away DAGs
    loaded: asyncio.Event = field(default_factory=asyncio.Event)  # set while no partitions are being loaded
    ready: asyncio.Event = field(default_factory=asyncio.Event)  # set once the session's partitions are loaded
    progress: asyncio.Event = field(default_factory=asyncio.Event)  # set after each commit and each check
