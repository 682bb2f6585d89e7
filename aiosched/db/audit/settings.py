"""With which settings a process has started, in the audit log: those that differ from their defaults."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from typing import Any

from aiosched.config import Settings, setting_fields, shown
from aiosched.config.secrecy import secrecy_of
from aiosched.core.audit.actor import actor
from aiosched.core.audit.kinds import AuditKind
from aiosched.db.audit.entries import record
from aiosched.db.server.engine import Database


async def record_settings(db: Database, settings: Settings, part: str) -> None:
    """Add an entry: a process has started as `part`, such as the scheduler."""
    await record(
        db,
        AuditKind.SETTINGS,
        part,
        by=actor(),
        host=socket.gethostname(),
        pid=os.getpid(),
        settings=dict(changed(settings)),
    )


def changed(settings: Settings) -> Iterator[tuple[str, Any]]:
    """The settings that differ from their defaults; of a secret one only that it is set."""
    for field in setting_fields():
        value = getattr(getattr(settings, field.section), field.name)
        if value != field.info.get_default(call_default_factory=True):
            is_secret = secrecy_of(field.info) is not None
            yield field.key, "set" if is_secret else _plain(shown(field.key, value))


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | list | dict | None) else str(value)
