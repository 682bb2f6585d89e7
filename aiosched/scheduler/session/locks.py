"""What keeps the loops of a session out of each other's way, and what they wait for."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field


@dataclass(slots=True)
class Locks:
    """One lock and three events of a session."""

    ownership: asyncio.Lock = field(default_factory=asyncio.Lock)  # one at a time creates, loads or gives away DAGs
    loaded: asyncio.Event = field(default_factory=asyncio.Event)  # set while no partitions are being loaded
    ready: asyncio.Event = field(default_factory=asyncio.Event)  # its partitions are read
    progress: asyncio.Event = field(default_factory=asyncio.Event)  # set after each commit and each check
