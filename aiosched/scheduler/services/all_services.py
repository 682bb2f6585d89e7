"""All services for running tasks, answered from a database: for schedulers, and for the worker API of web servers."""

from __future__ import annotations

from collections.abc import Callable

from aiosched.config import Settings
from aiosched.db.crypto.keyring import Keyring
from aiosched.db.server.engine import Database
from aiosched.scheduler.services.questions import Trusted
from aiosched.scheduler.services.secret_services import secret_services
from aiosched.scheduler.services.task_services import SERVICES, DatabaseServices


def services_of(
    db: Database, settings: Settings, *, lease: Callable[[], Trusted | None] = lambda: None
) -> DatabaseServices:
    """The services of this database. With a `lease`, questions are repeated while the database fails."""
    return DatabaseServices(db, {**SERVICES, **secret_services(Keyring.of(settings))}, lease=lease)
